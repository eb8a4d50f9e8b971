"""Defects of the Java client of the consumer protocol."""

from __future__ import annotations

from rebalance_sim.protocol.clients.common.consumer_config import ConsumerConfig
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.values import (
    CommitIdentity,
    FetchState,
    LocalAssignment,
    MembershipOperation,
    PartitionState,
)
from rebalance_sim.protocol.clients.java.classic.classic_member_rules import ClassicMemberRules
from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.defects.defect import Defect, defect
from rebalance_sim.protocol.wire.consumer_messages import LEAVE_EPOCH
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import TopicPartition


@defect(
    "Dekaf-1348",
    "Static member leaves with -1 instead of -2",
    source="thomhurst/Dekaf#1348",
    versions="Dekaf before July 2026; fixed",
    properties=("defects S9", "defects L7"),
)
class StaticLeavesForGood(MemberRules):
    """A static member leaves with -1."""

    def leave_epoch(self, instance_id: str | None, operation: MembershipOperation) -> int:
        """Whether or not an instance id is configured."""
        return LEAVE_EPOCH


class RetriesAsyncCommits(MemberRules):
    def retries_commit(self, *, is_sync: bool) -> bool:
        """The other way round."""
        return not is_sync


class RetriesAsyncCommitsOfClassic(ClassicMemberRules):
    def retries_commit(self, *, is_sync: bool) -> bool:
        """The other way round."""
        return not is_sync


@defect(
    "KAFKA-16185",
    "Same assignment in a newer epoch is not acknowledged",
    source="apache/kafka#15511",
    versions="3.7.0; fixed in 3.8.0 (with KAFKA-16312)",
    properties=("defects L1",),
)
class TargetsBySetOnly(MemberRules):
    """A target equal to the current set is no news, whatever came in between."""

    def next_target(
        self,
        received: frozenset[TopicPartition],
        target: LocalAssignment,
        current: LocalAssignment,
    ) -> LocalAssignment:
        """Targets are not numbered."""
        return target if received == current.partitions else LocalAssignment(0, received)


@defect(
    "KAFKA-16198",
    "Late topic metadata makes the client drop part of its assignment",
    source="apache/kafka#15271",
    versions="3.7.0; fixed in 3.8.0",
    properties=("defects L2",),
)
class LateNamesReplaceTarget(MemberRules):
    """When late topic names arrive, they alone become the target."""

    def target_after_late_names(
        self, target: LocalAssignment, late: frozenset[TopicPartition]
    ) -> LocalAssignment:
        """What was reconciled before is given up."""
        return LocalAssignment(target.local_epoch, late)


@defect(
    "KAFKA-16460",
    "Partitions are marked for revocation only after the commit",
    versions="before November 2024",
    properties=("defects S4",),
)
class CommitThenMark(MemberRules):
    """Partitions are marked for revocation only after the commit."""

    # Records are delivered while the commit is under way.
    stops_fetching_before_commit = False


class TwoHeartbeatsInFlight(MemberRules):
    def forgets_request_in_flight(
        self, now_ms: int, last_response_ms: int | None, sent_since_response: int
    ) -> bool:
        """A request sent in the millisecond of the last answer is overlooked, once."""
        return now_ms == last_response_ms and sent_since_response < 2


@defect(
    "KAFKA-17116",
    "First heartbeat without a member id leaves a ghost when its answer is lost",
    versions="before KIP-1082",
    properties=("defects S7",),
)
class IdFromCoordinator(MemberRules):
    """The first heartbeat has no id, so that a lost answer leaves a ghost behind."""

    def initial_member_id(self, client_made: str) -> str:
        """Ask for one."""
        return ""

    # The version in which coordinators make ids.
    heartbeat_version = 0


@defect(
    "KAFKA-19335",
    "Join heartbeat with epoch -1",
    source="apache/kafka#19818",
    versions="4.0; fixed in 4.1",
    properties=("defects S9", "defects L1"),
)
class JoinsWithLeaveEpoch(MemberRules):
    """The answer to a leave is adopted by a member that joins already."""

    # As in 4.0: so a member can join again before its leave is answered.
    any_answer_completes_leave = True

    def accepts_epoch(self, member_epoch: int) -> bool:
        """Any epoch is adopted."""
        return True


@defect(
    "KAFKA-19813",
    "Jitter of the heartbeat's backoff has the size of max.poll.interval.ms",
    versions="4.1.2; gone in 4.3.1",
    properties=("client C16",),
)
class WildJitter(MemberRules):
    """The jitter of the heartbeat's backoff was given as max.poll.interval.ms."""

    def heartbeat_jitter_share(self, config: ConsumerConfig) -> float:
        """Half of all backoffs are 0, the others at their maximum."""
        return float(config.max_poll_interval_ms)


@defect(
    "KAFKA-20332",
    "Records delivered for a partition under revocation",
    source="apache/kafka#21897",
    versions="4.0 - 4.2.0; fixed in the 4.2 line and 4.3",
    properties=("defects S1", "defects S4"),
)
class DeliversRevoked(MemberRules):
    """Buffered records of a partition under revocation are returned."""

    def delivers_records_of(self, partition: PartitionState) -> bool:
        """The mark is not looked at."""
        return (
            partition.fetch_state is FetchState.FETCHING
            and not partition.awaiting_assigned_callback
        )


@defect(
    "mut-client-adopts-late-answers",
    "Answers count in every state",
    properties=("client C2",),
)
class AdoptsLateAnswers(MemberRules):
    """Answers count in every state."""

    def accepts_answers_in(self, state: ClientState) -> bool:
        """A member that is out takes an epoch over."""
        return True


@defect(
    "mut-client-clears-id-on-fence",
    "A fenced member forgets its id",
    properties=("client C5",),
)
class ClearsIdOnFence(MemberRules):
    """A fenced member forgets its id."""

    def member_id_after_fence(self, member_id: str) -> str:
        """It has none."""
        return ""


@defect(
    "mut-client-commits-undelivered",
    "The position of a record that is still to be delivered is committed",
    properties=("client C23", "defects S4"),
)
class CommitsUndelivered(MemberRules):
    """The position of a record that is still to be delivered is
    committed.
    """

    def offset_to_commit(self, partition: PartitionState) -> int:
        """One too far."""
        return partition.position + 1


@defect(
    "mut-client-installs-again",
    "A refused target is handed in again and again",
    source="KIP-848",
    properties=("defects S9",),
)
class InstallsAgain(MemberRules):
    """A result is handed in until it is taken."""

    def installs_later(self, error_code: ErrorCode) -> bool:
        """A member that was replaced continues trying."""
        return error_code is not ErrorCode.NONE


@defect(
    "mut-client-keeps-leave-epoch",
    "The epoch of a leave is not reset when the member joins again",
    properties=("client C2", "client C21"),
)
class KeepsLeaveEpoch(MemberRules):
    """The epoch of a leave is not reset when the member joins again."""

    def epoch_to_join_with(self, member_epoch: int) -> int:
        """The join is another leave."""
        return member_epoch


@defect(
    "mut-client-reports-target",
    "Heartbeats report the target as owned",
    properties=("client C10", "client C9"),
)
class ReportsTarget(MemberRules):
    """Heartbeats report the target as owned."""

    def assignment_to_report(
        self, current: LocalAssignment, target: LocalAssignment
    ) -> LocalAssignment:
        """Nothing has been revoked yet, nor assigned."""
        return target


@defect(
    "mut-client-signs-at-creation",
    "A commit carries the identity of the moment in which it was asked for",
    properties=("client C22",),
)
class SignsAtCreation(MemberRules):
    """A commit carries the identity of the moment in which it was asked
    for.
    """

    def identity_of_commit(
        self, at_creation: CommitIdentity | None, at_sending: CommitIdentity | None
    ) -> CommitIdentity | None:
        """A retry repeats the old epoch."""
        return at_creation


@defect(
    "PR-15362",
    "Heartbeat response cancels the leave",
    source="apache/kafka#15362",
    versions="3.7.0; fixed in 3.8.0",
    properties=("defects L3", "defects S7"),
)
class AnswerCancelsLeave(MemberRules):
    """The answer to an older heartbeat is adopted before the leave is built."""

    def accepts_answers_in(self, state: ClientState) -> bool:
        """LEAVING, too."""
        return state.is_in_group

    # The leave is built only when nothing is in flight.
    leave_waits_for_answer = True


DEFECTS = (
    # It is the wrong commits of the application that are retried.
    Defect(
        id="KAFKA-15456",
        title="commitAsync is retried, commitSync is not",
        versions="before 3.7",
        rules=(RetriesAsyncCommits, RetriesAsyncCommitsOfClassic),
        properties=("client §7",),
    ),
    # "in flight" was "sent later than received", in milliseconds.
    Defect(
        id="KAFKA-16555",
        title="Two heartbeats in flight create phantom members",
        source="apache/kafka#15723",
        versions="3.7.0; fixed in 3.8.0",
        rules=(IdFromCoordinator, TwoHeartbeatsInFlight),
        properties=("defects S7", "defects L2"),
    ),
)
