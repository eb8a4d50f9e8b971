"""Defects of coordinators: of consumer groups those that change only values, and of all groups."""

from rebalance_sim.protocol.consumer.client_side_rules import ClientSideRules
from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects.defect import Defect, always, defect, wrong
from rebalance_sim.protocol.runtime.coordinator_config import ConfigsInForce
from rebalance_sim.protocol.runtime.coordinator_rules import CoordinatorRules
from rebalance_sim.protocol.wire.records import OffsetCommitValue


@defect(
    "mut-config-at-load",
    "Altered settings count after the next load only",
)
class TakesConfigsAtLoad(CoordinatorRules):
    """Altered settings count when the coordinator is loaded the next time."""

    def configs_in_force(self, known: ConfigsInForce, reported: ConfigsInForce) -> ConfigsInForce:
        return known


@defect(
    "mut-expire-early",
    "Offsets expire at the first check",
)
class ExpiresEarly(CoordinatorRules):
    """Every check takes what no member subscribes to, whatever its age."""

    def offset_expires(
        self, value: OffsetCommitValue, *, is_subscribed: bool, age_ms: int, retention_ms: int
    ) -> bool:
        return not is_subscribed


@defect(
    "mut-expire-subscribed",
    "Offsets of subscribed topics expire",
)
class ExpiresSubscribedOffsets(CoordinatorRules):
    """Retention does not ask who subscribes to the topic."""

    def offset_expires(
        self, value: OffsetCommitValue, *, is_subscribed: bool, age_ms: int, retention_ms: int
    ) -> bool:
        return age_ms >= retention_ms


DEFECTS = (
    # The coordinator counts by topic id what classic members own by name, so that a topic
    # which is recreated is given away at once (docs/findings.md).
    Defect(
        id="classic-recreated-topic",
        title="A recreated topic has two consumers in a mixed group",
        source="docs/findings.md",
        versions="4.1.2, 4.3.1",
        rules=(wrong(ConsumerGroupRules, outlives_topics=False),),
        properties=("classic H12", "defects S1", "defects S4"),
    ),
    # No one tells the new group coordinator that a topic is deleted, and the offsets of its
    # name stay.
    Defect(
        id="KAFKA-16168",
        title="Offsets outlive their topic",
        source="apache/kafka#15237",
        versions="3.7 candidates; fixed in 3.7",
        rules=(wrong(CoordinatorRules, deletes_offsets_with_topic=False),),
    ),
    # Every heartbeat of a revoking member restarts its deadline.
    Defect(
        id="KAFKA-16249-timer",
        title="Rebalance timeout restarted by every new target",
        source="apache/kafka#15364",
        versions="3.7.0; fixed in 3.8.0",
        rules=(wrong(ConsumerGroupRules, restarts_rebalance_timer=always(True)),),
        properties=("defects L1", "defects L2"),
    ),
    # Only a leave frees an instance id, and a classic member never sends one.
    Defect(
        id="KAFKA-17228",
        title="Upgraded static consumer cannot take over from its classic incarnation",
        source="apache/kafka#16800",
        versions="3.8 - 3.9 (preview); fixed in 4.0",
        rules=(wrong(ConsumerGroupRules, takes_over_instance=always(False)),),
        properties=("defects L5", "defects L1"),
    ),
    # A tombstone without its object, or a group that does not begin with a member, makes a
    # load fail.
    Defect(
        id="KAFKA-17306",
        title="Replay assumes that entities exist and records come in one order",
        source="apache/kafka#16898",
        versions="3.7 - 3.9; fixed in 4.0",
        rules=(wrong(ConsumerGroupRules, tolerates_compacted_log=False),),
        properties=("defects L6",),
    ),
    Defect(
        id="KAFKA-18931",
        title="Session timers not armed after load",
        versions="4.0 share groups; fixed in 4.1 "
        "(consumer groups arm them since the first release)",
        rules=(wrong(ConsumerGroupRules, arms_session_timers_on_load=False),),
        properties=("defects L3", "defects L2"),
    ),
    # Epoch 0 is taken for an old epoch, good only as the previous one.
    Defect(
        id="KAFKA-19233",
        title="Rejoin with epoch 0 refused while the member is still registered",
        source="apache/kafka#21305",
        versions="3.7 - 4.1; fixed in 4.2",
        rules=(wrong(ConsumerGroupRules, accepts_rejoin=always(False)),),
        properties=("defects L1", "defects L4"),
    ),
    # The stored target and assignment are used as they are, whatever the member subscribes to
    # by now.
    Defect(
        id="KAFKA-19431",
        title="Assignment keeps topics the member has unsubscribed from",
        source="apache/kafka#20055",
        versions="3.7 - 4.1; fixed in 4.2",
        rules=(wrong(ConsumerGroupRules, filters_target=False),),
        properties=("defects S6", "defects L1"),
    ),
    # A change of the preferred assignor does not raise the group epoch.
    Defect(
        id="KAFKA-20434",
        title="Another preferred assignor is not put to use",
        source="apache/kafka#22036",
        versions="4.0 - 4.3.1; fixed in 4.4.0",
        rules=(wrong(ConsumerGroupRules, raises_epoch_for_assignor=False),),
        properties=("coordinator §5.3",),
    ),
    # A group whose last member has gone keeps a target epoch below its group epoch.
    Defect(
        id="KAFKA-20442",
        title="The target epoch of an emptied group stays behind",
        source="apache/kafka#22045",
        versions="4.0 - 4.3.1; fixed in 4.4.0",
        rules=(wrong(ConsumerGroupRules, settles_emptied_group=False),),
        properties=("coordinator §4.2",),
    ),
    # A member that changes its instance id stays mapped under the former one.
    Defect(
        id="KAFKA-20747",
        title="A member that changes its instance id keeps the former one as well",
        source="apache/kafka#22708",
        versions="4.0 - 4.3.1; fixed in 4.4.0",
        rules=(wrong(ConsumerGroupRules, frees_former_instance_id=False),),
        properties=("coordinator C13",),
        unobserved="no client changes its instance id under its member id; random requests do",
    ),
    # No allowance for the previous epoch.
    Defect(
        id="KIP-848-lost-response",
        title="Lost heartbeat response fences a healthy member",
        source="KIP-848",
        versions="edge case named in the KIP text; handled in the implementation since 3.6",
        rules=(wrong(ConsumerGroupRules, accepts_previous_epoch=always(False)),),
        properties=("defects L4", "defects L7"),
    ),
    Defect(
        id="mut-abort-keeps-offsets",
        title="Offsets of an aborted transaction count",
        rules=(wrong(CoordinatorRules, drops_aborted_offsets=False),),
    ),
    # Each member that sends a heartbeat is asked to compute.
    Defect(
        id="mut-asks-everybody",
        title="Every member is asked to compute",
        source="KIP-848",
        rules=(wrong(ClientSideRules, is_asked_to_compute=always(True)),),
        properties=("defects L7",),
    ),
    # Any epoch of a known member will do.
    Defect(
        id="mut-commit-no-fence",
        title="Commits not fenced",
        rules=(wrong(ConsumerGroupRules, accepts_commit=always(True)),),
        properties=("defects S4",),
    ),
    Defect(
        id="mut-delete-keeps-offsets",
        title="A deleted group leaves its offsets behind",
        rules=(wrong(CoordinatorRules, deletes_offsets_with_group=False),),
    ),
    # Offsets are shown to a member at whatever epoch.
    Defect(
        id="mut-fetch-no-fence",
        title="Offset fetch answered at any epoch",
        rules=(wrong(ConsumerGroupRules, checks_epoch_of_fetch=False),),
    ),
    Defect(
        id="mut-fetch-shows-pending",
        title="A fetch is shown offsets that a transaction has pending",
        rules=(wrong(CoordinatorRules, hides_pending_offsets=False),),
    ),
    # A result is taken from a member that was replaced, too.
    Defect(
        id="mut-install-from-anybody",
        title="A target of a member that was replaced is installed",
        source="KIP-848",
        rules=(wrong(ClientSideRules, is_computing=always(True), group_to_judge_by=always(None)),),
        properties=("defects S8",),
    ),
    Defect(
        id="mut-load-revives-offsets",
        title="A load overlooks that offsets were deleted",
        rules=(wrong(CoordinatorRules, forgets_deleted_offsets=False),),
    ),
    Defect(
        id="mut-no-bump-on-leave",
        title="No group-epoch bump when a member leaves",
        rules=(wrong(ConsumerGroupRules, bumps_on_leave=False),),
        properties=("defects L2", "defects L8"),
    ),
    Defect(
        id="mut-no-bump-on-metadata",
        title="New partitions do not trigger a target",
        rules=(wrong(ConsumerGroupRules, notices_metadata=always(False)),),
        properties=("defects L2", "defects L8"),
    ),
    # No one takes the place of a member that does not finish.
    Defect(
        id="mut-no-computation-timer",
        title="No one replaces a member that never finishes",
        source="KIP-848",
        rules=(wrong(ClientSideRules, limits_computations=False),),
        properties=("defects L1",),
    ),
    # No epoch comparison at all.
    Defect(
        id="mut-no-epoch-fence",
        title="Old member epoch accepted in heartbeats",
        rules=(wrong(ConsumerGroupRules, accepts_epoch=always(True)),),
        properties=("defects S1", "defects S3"),
    ),
    # A target of an older epoch counts as the last word.
    Defect(
        id="mut-no-recompute",
        title="A target of an older epoch is the last one",
        source="KIP-848",
        rules=(wrong(ClientSideRules, is_outdated=always(False)),),
        properties=("defects L1", "defects L8"),
    ),
    Defect(
        id="mut-old-marker-counts",
        title="A marker of an older coordinator of transactions is accepted",
        rules=(wrong(CoordinatorRules, fences_old_markers=False),),
    ),
    Defect(
        id="mut-txn-commit-no-fence",
        title="Offsets are added to a transaction by any member, or none",
        rules=(wrong(CoordinatorRules, fences_txn_commits=False),),
    ),
    Defect(
        id="mut-txn-never-times-out",
        title="The transaction of a dead producer is never aborted",
        rules=(wrong(CoordinatorRules, aborts_timed_out_transactions=False),),
    ),
    # A static join is refused without comparing the member ids, or accepted without comparing
    # the instance ids: the member then stays mapped under its former one, too.
    Defect(
        id="PR-23542",
        title="Static member fenced by its own instance id",
        source="apache/kafka#23542",
        versions="4.0 - 4.4; a fix was proposed in September 2026",
        rules=(
            wrong(
                ConsumerGroupRules, is_instance_taken=always(True), may_take_instance=always(True)
            ),
        ),
        properties=("defects L1", "defects L4"),
    ),
    # A tie of votes for assignors raises the group epoch with every heartbeat.
    # With one vote each for uniform and range the coordinator counts uniform as preferred,
    # and range when the member that votes for range sends. Since 4.4.0 another preferred
    # assignor raises the group epoch (KAFKA-20434), and so every heartbeat of that member
    # does, as long as the tie lasts (docs/findings.md).
    Defect(
        id="tied-assignor-votes",
        title="A tie of assignor votes raises the group epoch with every heartbeat",
        source="docs/findings.md",
        versions="4.4.0",
        rules=(wrong(ConsumerGroupRules, raises_epoch_for_ties=True),),
        properties=("coordinator §5.3",),
    ),
)
