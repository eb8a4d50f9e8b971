"""Defects of clients that change only values, and of several kinds."""

from rebalance_sim.protocol.clients.common.commit_rules import CommitRules
from rebalance_sim.protocol.clients.common.values import CallbackKind
from rebalance_sim.protocol.clients.franz.franz_rules import FranzRules
from rebalance_sim.protocol.clients.java.classic.classic_member_rules import ClassicMemberRules
from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.clients.librdkafka.librdkafka_rules import LibrdkafkaRules
from rebalance_sim.protocol.defects.defect import Defect, wrong
from rebalance_sim.protocol.defects.java_consumer import CommitThenMark

DEFECTS = (
    # A leader assigns before it knows all topics of its group.
    Defect(
        id="aiokafka-118",
        title="Leader assigns without metadata of what others subscribe to",
        source="aio-libs/aiokafka#118",
        versions="aiokafka before 0.2.2",
        rules=(wrong(ClassicMemberRules, asks_for_topics_of_others=False),),
        properties=("classic §4.2",),
    ),
    # A subscription that changes during a rebalance stays unknown to the group.
    Defect(
        id="aiokafka-88",
        title="Subscription that changes during a rebalance is overlooked",
        source="aio-libs/aiokafka#88",
        versions="aiokafka before 0.2.1",
        rules=(wrong(ClassicMemberRules, compares_with_joined_topics=False),),
        properties=("classic §4.2",),
    ),
    # A commit for a topic that is gone is repeated for as long as the application may stay
    # away from poll, and only then the member rejoins (docs/findings.md).
    Defect(
        id="classic-deleted-topic-delay",
        title="A deleted topic costs a classic group twice its rebalance timeout",
        source="docs/findings.md",
        versions="4.3.1",
        rules=(wrong(ClassicMemberRules, gives_up_lost_topics=False),),
        properties=("defects L1",),
        measured="unowned_partition_ms",
    ),
    # An owned list that omits what is being taken over gives it to a second owner.
    # A failed heartbeat is followed by a full request, whose owned list is the last finished
    # reconciliation. What the client has accepted since, and is taking over, is not in it,
    # and the coordinator releases it without a revocation (coordinator D12;
    # docs/findings.md).
    Defect(
        id="D12",
        title="An owned list gives away what is being taken over",
        source="docs/findings.md",
        versions="kafka-clients 4.1.2, 4.3.1; librdkafka 2.16.0",
        rules=(
            wrong(MemberRules, omits_unfinished_from_full_request=True),
            wrong(LibrdkafkaRules, omits_unfinished_from_full_request=True),
        ),
        properties=("defects S1",),
    ),
    # An offset of a deleted topic is stored for its successor.
    # Commits name the topic that has the name when they are sent, so a position in a topic
    # that is gone is stored for the one that has its name by now (coordinator D13;
    # docs/findings.md).
    Defect(
        id="D13",
        title="An offset of a deleted topic is stored for its successor",
        source="docs/findings.md",
        versions="4.1.2, 4.3.1; librdkafka 2.16.0",
        rules=(wrong(CommitRules, names_topics_of_commits=True),),
        properties=("coordinator D13",),
    ),
    # A refused commit changes nothing.
    Defect(
        id="franz-go-1326",
        title="Commit that is refused for good does not let the client join again",
        source="twmb/franz-go#1326",
        versions="franz-go up to 1.21.2",
        rules=(wrong(ClassicMemberRules, learns_from_refused_commits=False),),
        properties=("classic §4.3",),
    ),
    # After any failure of a JoinGroup or SyncGroup the client joins as somebody new, and the
    # group waits for the one that it was.
    Defect(
        id="KAFKA-13214",
        title="Member id thrown away after a retriable error in a rebalance",
        source="apache/kafka#11231",
        versions="up to 3.0 candidates; fixed in 3.0/3.1, backported to 2.7 and 2.8 lines",
        rules=(wrong(ClassicMemberRules, keeps_member_id_on_retriable_error=False),),
        properties=("defects L1", "defects S7"),
    ),
    # A member that syncs too late gives up more than it has to.
    Defect(
        id="KAFKA-14016",
        title="SyncGroup that comes too late costs all partitions",
        versions="3.3 candidates; fixed in 3.2.1 and 3.3",
        rules=(wrong(ClassicMemberRules, keeps_generation_of_refused_sync=False),),
        properties=("classic §4.3",),
    ),
    # The commit before a JoinGroup is tried for ever.
    Defect(
        id="KAFKA-14024",
        title="Preparation of a rebalance has no end",
        versions="3.2.0; fixed in 3.2.1",
        rules=(wrong(ClassicMemberRules, limits_preparation=False),),
        properties=("classic §3.2",),
    ),
    # Records are handed out after the position was taken that is committed before a
    # revocation, and the next owner hands them out again.
    Defect(
        id="KAFKA-14196",
        title="Fetching continues while the commit before a revocation is pending",
        source="apache/kafka#12603",
        versions="3.2 line; fixed in the 3.2 line and 3.3.0",
        rules=(wrong(ClassicMemberRules, stops_fetching_before_commit=False),),
        properties=("defects S4", "defects S1"),
    ),
    # Interval commits pile up while the coordinator does not answer.
    Defect(
        id="KAFKA-16004",
        title="Interval commit while the last one is not answered",
        versions="before 3.8",
        rules=(wrong(MemberRules, waits_for_interval_commit=False),),
        properties=("client §7",),
    ),
    # The commit before a revocation is out of time as it begins.
    Defect(
        id="KAFKA-16133",
        title="Commit before a revocation is tried once",
        versions="before 3.8",
        rules=(wrong(MemberRules, repeats_commit_before_revocation=False),),
        properties=("client §7",),
    ),
    # An error answer does not clear the mark of a request in flight.
    Defect(
        id="KAFKA-16215",
        title="Client stops heartbeating after an error response",
        source="apache/kafka#15311",
        versions="3.7.0; fixed in 3.8.0 (also KAFKA-16178)",
        # No heartbeat is sent any more, urgent ones included.
        rules=(wrong(MemberRules, stays_in_flight_after_error=True),),
        properties=("defects L1", "defects L2"),
    ),
    # A commit before a revocation is repeated although the topic is gone.
    Defect(
        id="KAFKA-16224",
        title="Commit for a deleted topic holds a revocation up",
        versions="before 3.8",
        rules=(wrong(MemberRules, gives_up_lost_topics=False),),
        properties=("client §7",),
    ),
    # A member that stopped polling leaves, but keeps its partitions.
    Defect(
        id="KAFKA-16258",
        title="Consumer that exceeded max.poll.interval leaves but keeps its partitions",
        source="apache/kafka#15415",
        versions="3.7.0; fixed in 3.8.0",
        # Neither lost callback nor clearing.
        rules=(wrong(MemberRules, releases_on_poll_expiry=False),),
        properties=("defects S1",),
    ),
    # A connection lost with a heartbeat in flight starts no search.
    Defect(
        id="KAFKA-17293",
        title="Client keeps heartbeating to a dead coordinator",
        source="apache/kafka#16844",
        versions="3.7 - 3.9; fixed in 4.0",
        # Only commits and offset fetches notice.
        rules=(wrong(MemberRules, disconnect_loses_coordinator=False),),
        properties=("defects L4", "defects L1"),
    ),
    Defect(
        id="KAFKA-17294",
        title="Offset fetch that is refused for a while fails for good",
        versions="before 4.0",
        rules=(wrong(MemberRules, raises_what_lookups_retry=True),),
        properties=("client §7",),
    ),
    # After a failed assigned callback the partition is never fetched.
    Defect(
        id="KAFKA-18160",
        title="Partition is never fetched after a failed assigned callback",
        # Only what the second attempt added is freed, and that is nothing.
        rules=(wrong(MemberRules, clears_flag_of_all_assigned=False),),
        properties=("defects L2",),
    ),
    # With auto-commit, reconciliation and interval commits do not wait for a poll.
    Defect(
        id="KAFKA-18641",
        title="Reconciliation and automatic commits do not wait for a poll",
        versions="before 2025",
        # Positions of records that are returned, but not processed, are committed.
        rules=(wrong(MemberRules, acts_outside_poll=True),),
        properties=("defects S4",),
    ),
    # A leader looks at the topics of its own subscription alone.
    Defect(
        id="librdkafka-4533",
        title="New partitions of a topic that the leader does not read have no owner",
        source="confluentinc/librdkafka#4533",
        versions="librdkafka up to 2.16.0; issue open",
        rules=(wrong(LibrdkafkaRules, leader_watches_topics_of_all=False),),
        properties=("defects L2",),
    ),
    # A commit of the generation before, refused during a rebalance, costs the whole
    # assignment.
    Defect(
        id="librdkafka-4908",
        title="Commit during an incremental rebalance loses the whole assignment",
        source="confluentinc/librdkafka#4908",
        versions="librdkafka 1.6.0 - 2.9; fixed in 2.10.0",
        rules=(wrong(LibrdkafkaRules, keeps_generation_while_rebalancing=False),),
        properties=("defects L4", "defects L7"),
    ),
    # The reduced set is reported first, commit and callback come later.
    Defect(
        id="mut-ack-before-stop",
        title="Acknowledge first, stop later",
        # The reconciliation begins with its end.
        rules=(CommitThenMark, wrong(MemberRules, acknowledges_on_receipt=True)),
        properties=("defects S1", "defects S4"),
    ),
    # A static member gives its place up when its application is away.
    Defect(
        id="mut-classic-static-leaves",
        title="Static member leaves when its application is away",
        rules=(wrong(ClassicMemberRules, static_members_stay=False),),
        properties=("classic §4.5",),
    ),
    Defect(
        id="mut-client-ack-before-apply",
        title="The ack overtakes the taking over of the new set",
        # STABLE, with the old set still assigned.
        rules=(wrong(MemberRules, acknowledges_before_assigned_callback=True),),
        properties=("client C7",),
    ),
    Defect(
        id="mut-client-commits-released",
        title="Automatic commits still hold partitions that were given up",
        # Their last positions are kept.
        rules=(wrong(MemberRules, forgets_released_positions=False),),
        properties=("client C24", "defects S4"),
    ),
    Defect(
        id="mut-client-fetches-during-callback",
        title="Added partitions are fetched before onPartitionsAssigned has returned",
        # No mark is set.
        rules=(wrong(MemberRules, waits_for_assigned_callback=False),),
        properties=("client C11",),
    ),
    Defect(
        id="mut-client-hears-every-answer",
        title="The assignor's callback runs with every answer",
        source="KIP-848",
        # An epoch is heard of again and again.
        rules=(wrong(MemberRules, reports_assignment_once=False),),
        properties=("client C13",),
    ),
    # A fenced member continues signing its commits.
    Defect(
        id="mut-client-keeps-identity-on-fence",
        title="A fenced member keeps signing its commits",
        # With the epoch that was fenced.
        rules=(wrong(MemberRules, keeps_identity_on_fence=True),),
        properties=("client C4",),
    ),
    Defect(
        id="mut-client-keeps-sent-fields",
        title="After a failure the next heartbeat repeats nothing",
        # What got lost stays lost.
        rules=(wrong(MemberRules, resets_sent_fields_on_failure=False),),
        properties=("client C18",),
    ),
    Defect(
        id="mut-client-leave-needs-success",
        title="A failed leave heartbeat does not complete ``unsubscribe`` or ``close``",
        # They wait for their timeout.
        rules=(wrong(MemberRules, failure_completes_leave=False),),
        properties=("client C28",),
    ),
    # A fenced member joins again before its partitions are lost.
    Defect(
        id="mut-client-rejoins-before-lost",
        title="A fenced member joins again before its partitions are given up",
        # The callback comes later, if the application polls.
        rules=(wrong(MemberRules, rejoins_before_lost_callback=True),),
        properties=("client C6", "client C9"),
    ),
    Defect(
        id="mut-client-revokes-on-fence",
        title="onPartitionsRevoked, instead of onPartitionsLost, runs after a fence",
        # The member has no identity to commit with.
        rules=(wrong(MemberRules, callback_of_loss=CallbackKind.REVOKED),),
        properties=("client C14",),
    ),
    Defect(
        id="mut-client-revokes-twice",
        title="onPartitionsRevoked runs twice for the same partitions",
        # In one reconciliation.
        rules=(wrong(MemberRules, revoked_callback_count=2),),
        properties=("client C13",),
    ),
    # A new target starts another reconciliation beside the first.
    Defect(
        id="mut-client-second-reconciliation",
        title="A new target starts a second reconciliation beside the first",
        # Both run to their ends.
        rules=(wrong(MemberRules, starts_second_reconciliation=True),),
        properties=("client C8",),
    ),
    # STALE_MEMBER_EPOCH on an offset fetch leads to the reset policy.
    Defect(
        id="platformatic-267",
        title='STALE_MEMBER_EPOCH on offset fetch treated as "no committed offset"',
        source="platformatic/kafka#267",
        versions="@platformatic/kafka 1.30.0 (issue open in 2026)",
        # Records are skipped, or read again.
        rules=(wrong(MemberRules, takes_stale_epoch_for_no_offset=True),),
        properties=("defects S4",),
    ),
    # A member that takes its time before it joins again is removed.
    Defect(
        id="sarama-2110",
        title="Heartbeats end when the group rebalances",
        source="IBM/sarama#2110",
        versions="IBM/sarama before 1.31",
        rules=(wrong(ClassicMemberRules, beats_while_the_group_rebalances=False),),
        properties=("classic §4.4",),
    ),
    # Found by this simulator, confirmed with kafka-clients 4.3.1 and 4.4.0.
    # A consumer without a rebalance listener is removed while close repeats its commit. It joins
    # again, and the commit goes out under the new epoch, also for partitions that are another
    # member's by then (docs/findings.md).
    Defect(
        id="sim-closing-commit",
        title="A consumer that closes commits what it has lost",
        source="docs/findings.md",
        versions="4.3.1, 4.4.0",
        rules=(wrong(MemberRules, repeats_lost_offsets_in_close=True),),
        properties=("client C24", "coordinator E4", "defects S4"),
    ),
    # Found by this simulator, in the code of kafka-clients 4.3.1.
    # The assigned callback fails after the new set was taken over; a target that returns to
    # the old set is then acknowledged at once, and never taken over (docs/findings.md).
    Defect(
        id="sim-failed-callback",
        title="After a failed assigned callback the client calls half a change stable",
        source="docs/findings.md",
        versions="4.3.1",
        rules=(wrong(MemberRules, trusts_current_after_failed_callback=True),),
        properties=("client C7",),
    ),
    # Found by this simulator, in the code of kafka-clients 4.3.1.
    # A client that joins takes any good answer for the one that it waits for, that to a
    # heartbeat of its former membership too (docs/findings.md).
    Defect(
        id="sim-late-answer",
        title="A rejoining client takes an answer from its former membership",
        source="docs/findings.md",
        versions="4.3.1",
        rules=(wrong(MemberRules, takes_answers_of_former_memberships=True),),
        properties=("defects S1",),
    ),
    # Found by this simulator, in the code of kafka-clients 4.3.1.
    # A failure forgets what was sent, the empty pattern included, and a member without a
    # pattern then looks as if nothing had changed: the withdrawal is not repeated, and the
    # coordinator keeps the pattern for as long as the member lives (docs/findings.md).
    Defect(
        id="sim-lost-pattern-withdrawal",
        title="A lost request leaves a pattern behind for good",
        source="docs/findings.md",
        versions="4.1.2, 4.3.1",
        rules=(wrong(MemberRules, repeats_withdrawn_pattern=False),),
        properties=("defects L1",),
    ),
    # Found by this simulator, confirmed with franz-go 1.22.3.
    # The leave of a static member of the consumer protocol does not name its instance, is
    # refused, and is not sent again: a member that comes back under that name is refused
    # until the session has ended (docs/findings.md).
    Defect(
        id="sim-nameless-leave",
        title="A static member leaves without its name, and cannot come back",
        source="docs/findings.md",
        versions="franz-go 1.22.3",
        rules=(wrong(FranzRules, names_instance_in_leave=False),),
        properties=("defects S9",),
    ),
    # Found by this simulator, confirmed with librdkafka 2.16.0, and with franz-go 1.22.3,
    # whose dynamic members do it too.
    # A static member whose JoinGroup is refused with UNKNOWN_MEMBER_ID keeps what it owned,
    # and joins again (docs/findings.md).
    Defect(
        id="sim-outlived-membership",
        title="A static member continues with what others own",
        source="docs/findings.md",
        versions="librdkafka 2.16.0; franz-go 1.22.3",
        rules=(
            wrong(LibrdkafkaRules, loses_partitions_of_unknown_member=False),
            wrong(FranzRules, loses_partitions_of_unknown_member=False),
        ),
        properties=("defects S1",),
    ),
    # Found by this simulator, in the code of librdkafka 2.16.0 and, rarely, kafka-clients
    # 4.3.1.
    # A commit that has failed is repeated behind a younger one, and takes the committed
    # offset back (docs/findings.md).
    Defect(
        id="sim-overtaken-commit",
        title="A client takes its committed offset back",
        source="docs/findings.md",
        versions="librdkafka 2.16.0; kafka-clients 4.3.1",
        rules=(wrong(CommitRules, repeats_overtaken_commits=True),),
        properties=("defects S4",),
    ),
    # Found by this simulator, in the code of librdkafka 2.16.0.
    # After an answer that did not come in time an acknowledgement is repeated as it was. To
    # the coordinator it is no news, and so its answer holds no assignment (docs/findings.md).
    Defect(
        id="sim-repeated-ack",
        title="One lost answer loses an assignment",
        source="docs/findings.md",
        versions="librdkafka 2.16.0",
        rules=(wrong(LibrdkafkaRules, says_everything_after_late_answer=False),),
        properties=("defects L2",),
    ),
    # Found by this simulator, in the code of kafka-clients 4.3.1.
    # A commit before a revocation that is repeated has the positions of that moment, behind
    # records that were handed out since and are not processed (docs/findings.md).
    Defect(
        id="sim-retried-commit",
        title="A repeated commit covers records that are not processed",
        source="docs/findings.md",
        versions="4.3.1",
        rules=(wrong(MemberRules, retakes_positions_of_retries=True),),
        properties=("defects S4",),
    ),
    # Found by this simulator, confirmed with franz-go 1.22.3.
    # A member leaves when it has been given another assignment and has not begun with it: the
    # application learns that this one is revoked, and not what it works on
    # (docs/findings.md).
    Defect(
        id="sim-untold-revocation",
        title="A member leaves, and its application does not learn of all that it loses",
        source="docs/findings.md",
        versions="franz-go 1.22.3",
        rules=(wrong(FranzRules, tells_of_what_it_has=False),),
        properties=("client C8",),
    ),
    # Found by this simulator, confirmed with franz-go 1.22.3.
    # A cooperative group goes over to eager. A member that had kept its partitions through the
    # JoinGroup revokes them after its SyncGroup, when others have been given them already
    # (docs/findings.md).
    Defect(
        id="sim-late-downgrade",
        title="A group goes over to eager, and partitions have two consumers for a while",
        source="docs/findings.md",
        versions="franz-go 1.22.3",
        rules=(wrong(FranzRules, revokes_before_eager_sync=False),),
        properties=("classic C9", "defects S1"),
    ),
    # Found by this simulator, confirmed with franz-go 1.22.3.
    # A commit that has waited for the one before it, or is repeated, goes out as it was made, also
    # for partitions that the member has given up meanwhile. While the member is not at the group's
    # epoch yet the coordinator stores it, although they are another's (docs/findings.md).
    Defect(
        id="sim-waiting-commit",
        title="A commit that has waited takes another member's committed offset back",
        source="docs/findings.md",
        versions="franz-go 1.22.3",
        rules=(wrong(FranzRules, leaves_given_up_out_of_commits=False),),
        properties=("coordinator E4", "defects S4"),
    ),
    # A leader watches those topics of others that it found when it made its plan. One that is
    # created later is given to no member until something else rebalances the group
    # (docs/findings.md).
    Defect(
        id="sim-unwatched-topic",
        title="A topic that comes after its subscriber is given to no member",
        source="docs/findings.md",
        versions="franz-go 1.22.3",
        rules=(wrong(FranzRules, watches_missing_topics=False),),
        properties=("classic C13", "defects L2"),
    ),
)
