"""Defects of classic groups and of conversions."""

from rebalance_sim.protocol.classic.classic_rules import ClassicGroupRules
from rebalance_sim.protocol.defects.defect import Defect, always, defect, wrong
from rebalance_sim.protocol.migration.migration_rules import MigrationRules


@defect(
    "classic-reused-generation",
    "A generation that is used again hides a former owner",
    source="docs/findings.md",
    versions="4.1.2, 4.3.1",
    properties=("classic C10", "defects S1"),
)
class UsesNumbersAgain(ClassicGroupRules):
    """Generations are counted on from the last one in the log, and a former
    coordinator may have given the next number away as well (docs/findings.md).
    """

    fences_joins = False

    def first_generation(self, term: int) -> int:
        return 0


@defect(
    "KAFKA-20273",
    "A group that is converted back does not rebalance for a target that is due",
    source="apache/kafka#21663",
    versions="4.0 - 4.2; fixed in 4.3",
    properties=("defects L2",),
)
class RebalancesForOwnChange(MigrationRules):
    """A group that is converted back does not rebalance for a target that is due."""

    def rebalances_for_due_target(self, *, is_changed: bool) -> bool:
        return is_changed


@defect(
    "PR-16290",
    "Converted member has the session timeout of the other protocol",
    source="apache/kafka#16290",
    versions="3.8.0 candidate line; fixed in 3.8.0",
)
class ConvertsWithOtherSession(MigrationRules):
    """A conversion gives classic members the session timeout of the consumer protocol."""

    def converted_session_ms(self, session_timeout_ms: int, default_ms: int) -> int:
        return default_ms


DEFECTS = (
    # A refused JoinGroup makes the coordinator forget an empty consumer group.
    # A JoinGroup with a member id, sent to a consumer group without members, is answered
    # UNKNOWN_MEMBER_ID, but the group has been taken out of memory by then and nothing is
    # written. Who joins next makes another group of the id: a consumer group starts at epoch
    # 2, below the epoch in the log, and a classic one is written beside the consumer group
    # (docs/findings.md).
    Defect(
        id="classic-dropped-group",
        title="A refused JoinGroup makes the coordinator forget an empty group",
        source="docs/findings.md",
        versions="4.3.1, 4.4.0",
        rules=(wrong(MigrationRules, keeps_empty_group_of_refused=False),),
        properties=("classic §2.2",),
    ),
    # A group in its first join phase has no protocol name, and cannot be converted; parked
    # requests have been answered by then, and no timer watches their senders
    # (docs/findings.md).
    Defect(
        id="classic-early-conversion",
        title="A conversion in the first join phase fails half way",
        source="docs/findings.md",
        versions="4.1.2, 4.3.1",
        rules=(
            wrong(
                MigrationRules,
                converts_in_first_join_phase=False,
                answers_parked_if_converted=False,
            ),
        ),
        properties=("classic C12", "defects L1"),
    ),
    # A Stable group answers a SyncGroup at once, also from a conversion that is not committed
    # yet (docs/findings.md).
    Defect(
        id="classic-early-sync",
        title="A group that is converted back answers before that is committed",
        source="docs/findings.md",
        versions="4.1.2, 4.3.1",
        rules=(wrong(ClassicGroupRules, syncs_when_committed=False),),
        properties=("classic C7",),
    ),
    # A group that is converted refuses the assignor that its JoinGroup was answered with, and
    # the member fails for good (docs/findings.md).
    Defect(
        id="classic-forgotten-assignor",
        title="A conversion forgets which assignor members were given, and they fail for good",
        source="docs/findings.md",
        versions="4.1.2, 4.3.1",
        rules=(wrong(MigrationRules, takes_offered_assignors=False),),
        properties=("classic §4.3",),
    ),
    # A conversion takes what the leader assigned for all that members own (docs/findings.md).
    Defect(
        id="classic-forgotten-owners",
        title="A conversion in mid-rebalance forgets what cooperative members own",
        source="docs/findings.md",
        versions="4.1.2, 4.3.1",
        rules=(wrong(MigrationRules, keeps_claims=False),),
        properties=("classic H12", "defects S1", "defects S4"),
    ),
    # A static member comes back without a rebalance, whatever has changed meanwhile
    # (docs/findings.md).
    Defect(
        id="classic-quiet-return",
        title="A static member comes back with a subscription that no one serves",
        source="docs/findings.md",
        versions="4.1.2, 4.3.1",
        rules=(
            wrong(MigrationRules, rebalances_on_return=False, rebalances_with_current_target=False),
        ),
        properties=("defects L2",),
    ),
    # A classic member is asked to rejoin when a target is there, and only its JoinGroup would
    # have it computed (docs/findings.md).
    Defect(
        id="classic-stranded-members",
        title="What is left of a migration may never rebalance again",
        source="docs/findings.md",
        versions="4.3.1",
        rules=(wrong(MigrationRules, calls_back_for_target=False),),
        properties=("classic H11", "defects L2"),
    ),
    # A consumer group takes a classic member under any id that it brings, also one that was
    # removed, which keeps what it owned (docs/findings.md).
    Defect(
        id="classic-unheard-removal",
        title="A consumer group lets a removed classic member in again without a word",
        source="docs/findings.md",
        versions="4.1.2, 4.3.1",
        rules=(wrong(MigrationRules, is_former_member=always(False)),),
        properties=("classic H12", "defects S1", "defects S4"),
    ),
    # A converted group takes its topics as they are for those that its leader has seen
    # (docs/findings.md).
    Defect(
        id="classic-unseen-growth",
        title="A conversion hides new partitions",
        source="docs/findings.md",
        versions="4.1.2, 4.3.1",
        rules=(wrong(MigrationRules, sees_growth=False),),
        properties=("defects L2",),
    ),
    # A converted group takes its subscriptions as they are for those that its leader has seen
    # (docs/findings.md).
    Defect(
        id="classic-unseen-subscription",
        title="A conversion hides a changed subscription",
        source="docs/findings.md",
        versions="4.1.2, 4.3.1",
        rules=(wrong(MigrationRules, sees_subscriptions=False),),
        properties=("classic H11", "defects L2"),
    ),
    # The session of a classic member begins when its join is committed, and never if that
    # takes too long (docs/findings.md).
    Defect(
        id="classic-unwatched-join",
        title="A classic member stays in a consumer group for ever",
        source="docs/findings.md",
        versions="4.1.2, 4.3.1",
        rules=(wrong(MigrationRules, watches_from_write=False),),
        properties=("defects L1", "defects L2", "defects L3"),
    ),
    # A conversion looks at the names of topics, and not at how many partitions they have
    # (docs/findings.md).
    Defect(
        id="classic-vanished-partition",
        title="A conversion brings a partition that is no more, and then no one may join",
        source="docs/findings.md",
        versions="4.1.2, 4.3.1",
        rules=(wrong(MigrationRules, drops_vanished_partitions=False),),
        properties=("classic C13", "classic H11", "defects L1", "defects L2"),
    ),
    # Nothing but the sessions bounds the wait for SyncGroups, and heartbeats keep sessions
    # alive.
    Defect(
        id="KAFKA-12890",
        title="Group stuck in CompletingRebalance",
        source="apache/kafka#10863",
        versions="2.7 - 2.8.0; fixed in 3.0.0 and the 2.8 line",
        rules=(wrong(ClassicGroupRules, has_sync_deadline=False),),
        properties=("defects L1", "defects L2"),
    ),
    # Offsets expire in a rebalance, by what the last generation subscribed to.
    Defect(
        id="KAFKA-13636",
        title="Offsets expire while a classic group rebalances",
        source="apache/kafka#11742",
        versions="2.1 - 3.1; fixed in the 3.1 line and 3.2",
        rules=(wrong(ClassicGroupRules, expires_in_rebalances=True),),
    ),
    Defect(
        id="KAFKA-14009",
        title="Static member that returns keeps the timeouts of its predecessor",
        source="apache/kafka#12308",
        versions="2.3 - 3.3.1; fixed in the 3.3 line and 3.4",
        rules=(wrong(ClassicGroupRules, takes_timeouts_of_successor=False),),
    ),
    # A JoinGroup that leaves only classic members does not convert the group.
    Defect(
        id="KAFKA-17317",
        title="No downgrade after the last new-protocol static member is replaced",
        source="apache/kafka#17306",
        versions="3.8 - 3.9; fixed in 4.0",
        rules=(wrong(MigrationRules, downgrades_on_replacement=False),),
        properties=("defects L5",),
    ),
    # No bytes are taken for corrupt bytes, and the conversion fails.
    Defect(
        id="KAFKA-17733",
        title="Conversion fails when a classic member has no assignment yet",
        source="apache/kafka#17853",
        versions="3.9 and earlier; fixed in 4.0",
        rules=(wrong(MigrationRules, converts_members_without_assignment=False),),
        properties=("defects L5", "defects L1"),
    ),
    # A converted group does not know its topics, so that they look changed.
    Defect(
        id="KAFKA-18687",
        title="Conversion forces a needless reassignment",
        source="apache/kafka#19790",
        versions="4.0; fixed in 4.0.x/4.1",
        rules=(wrong(MigrationRules, converted_metadata_hash=always(0)),),
        properties=("defects L7",),
    ),
    Defect(
        id="KAFKA-19546",
        title="A group that is converted back does not rebalance for a changed subscription",
        source="apache/kafka#20417",
        versions="4.0.0 - 4.1.0; fixed in 4.0.2, 4.1.1 and 4.2",
        rules=(wrong(MigrationRules, rebalances_for_due_target=always(False)),),
        properties=("defects L2",),
    ),
    # A classic member that takes a static consumer's place keeps the pattern of that.
    Defect(
        id="KAFKA-19720",
        title="Classic member inherits the pattern of the static consumer that it replaces",
        source="apache/kafka#20626",
        versions="4.0 - 4.1; fixed in the 4.1 line and 4.2",
        rules=(wrong(MigrationRules, drops_pattern_of_predecessor=False),),
    ),
    # Offsets make a group a classic one, whatever the records after them say.
    Defect(
        id="KAFKA-20254",
        title="Committed offsets that precede group records block the load",
        source="apache/kafka#21641",
        versions="4.2.0 (streams groups); fixed in 4.2.x, for consumer groups in 4.0 (KAFKA-17306)",
        rules=(wrong(ClassicGroupRules, replaces_simple_group=False),),
        properties=("defects L6",),
    ),
    # A classic member gets into a consumer group that can never be converted.
    Defect(
        id="KAFKA-20640",
        title="Group stays mixed for ever with migration disabled",
        source="apache/kafka#22457",
        versions="4.0 - 4.3; fixed on the 4.0 - 4.4 lines",
        rules=(wrong(MigrationRules, admits_classic_member=always(True)),),
        properties=("defects L5",),
    ),
    # A load forgets the protocol type of a group that has no members.
    Defect(
        id="KAFKA-6421",
        title="A load forgets the protocol type of an empty group",
        source="apache/kafka#4407",
        versions="up to 1.0; fixed in 1.1.0",
        rules=(wrong(ClassicGroupRules, loads_protocol_type=False),),
    ),
    # A JoinGroup without a member id makes a member at once; each retry, another.
    Defect(
        id="KAFKA-7824",
        title="Retried first JoinGroup leaves a ghost member behind",
        source="apache/kafka#6058",
        versions="up to 2.1; fixed in 2.2.0 (KIP-394; KAFKA-7610 is the earlier mitigation)",
        rules=(wrong(ClassicGroupRules, requires_member_id=always(False)),),
        properties=("defects S7", "defects L1"),
    ),
    # The join phase is not looked at again when an id that it waits for goes.
    Defect(
        id="KAFKA-7909",
        title="Rebalance waits for a member that only has an id",
        source="apache/kafka#6251",
        versions="2.2.0; fixed in the 2.2 line and 2.3",
        rules=(wrong(ClassicGroupRules, rechecks_join_phase_without_pending=False),),
        properties=("defects L1",),
    ),
    # A static member that returns before the assignment arrives gets a new id, and the
    # assignment is keyed by the old one.
    Defect(
        id="KAFKA-9801",
        title="Static join during CompletingRebalance ends with an empty assignment",
        source="apache/kafka#8405",
        versions="2.3 - 2.4; fixed in the 2.5 line and 2.6",
        rules=(wrong(ClassicGroupRules, rebalances_on_replacement_while_completing=False),),
        properties=("defects L2",),
    ),
    Defect(
        id="mut-silent-leader",
        title="A static leader that has not joined leads the next generation",
        rules=(wrong(ClassicGroupRules, silent_leader_gives_way=False),),
    ),
    # A member whose SyncGroup waited continues with the session that began before that, or
    # with none if it ended meanwhile.
    Defect(
        id="PR-451",
        title="Session is not restarted when a SyncGroup is answered",
        source="apache/kafka#451",
        versions="0.9.0 candidate line; fixed in 0.9.0",
        rules=(wrong(ClassicGroupRules, renews_sessions_of_synced=False),),
    ),
    # Found by this simulator, in the text of KIP-848.
    # A partition is granted when its former owner releases it, behind the back of its next
    # owner. If it is taken away again before that one has heard of it, nothing has changed
    # for its client, which never acknowledges (docs/findings.md).
    Defect(
        id="sim-unheard-grant",
        title="What is granted behind a member's back may never be acknowledged",
        source="docs/findings.md",
        versions="KIP-848",
        rules=(wrong(MigrationRules, promotes_on_release=True),),
        properties=("defects L1",),
    ),
)
