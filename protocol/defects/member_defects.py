"""Client defects and mutants: each a mixin that overrides decisions of ``MemberRules``.

Sources: defects §6, §11; client §12, right column (``mut-client-*``), and client Appendix A
(behaviour that later releases changed). Off by default.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rebalance_sim.protocol.clients.common.consumer_config import ConsumerConfig
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.values import (
    CallbackKind,
    CommitIdentity,
    FetchState,
    LocalAssignment,
    MembershipOperation,
    PartitionState,
)
from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.wire.consumer_messages import LEAVE_EPOCH
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import TopicPartition

__all__ = ["MEMBER_DEFECTS"]


class IdFromCoordinator(MemberRules):
    """KAFKA-17116: the first heartbeat has no id, so that a lost answer leaves a ghost behind."""

    def initial_member_id(self, client_made: str) -> str:
        """Ask for one."""
        return ""

    def heartbeat_version(self) -> int:
        """The version in which coordinators make ids."""
        return 0


class TwoHeartbeatsInFlight(IdFromCoordinator):
    """KAFKA-16555: "in flight" was "sent later than received", in milliseconds."""

    def forgets_request_in_flight(
        self, now_ms: int, last_response_ms: int | None, sent_since_response: int
    ) -> bool:
        """A request sent in the millisecond of the last answer is overlooked, once."""
        return now_ms == last_response_ms and sent_since_response < 2


class StuckInFlight(MemberRules):
    """KAFKA-16215: an error answer does not clear the mark of a request in flight."""

    def stays_in_flight_after_error(self) -> bool:
        """No heartbeat is sent any more, urgent ones included."""
        return True


class LateNamesReplaceTarget(MemberRules):
    """KAFKA-16198: when late topic names arrive, they alone become the target."""

    def target_after_late_names(
        self, target: LocalAssignment, late: frozenset[TopicPartition]
    ) -> LocalAssignment:
        """What was reconciled before is given up."""
        return LocalAssignment(target.local_epoch, late)


class TargetsBySetOnly(MemberRules):
    """KAFKA-16185: a target equal to the current set is no news, whatever came in between."""

    def next_target(
        self,
        received: frozenset[TopicPartition],
        target: LocalAssignment,
        current: LocalAssignment,
    ) -> LocalAssignment:
        """Targets are not numbered."""
        return target if received == current.partitions else LocalAssignment(0, received)


class AnswerCancelsLeave(MemberRules):
    """PR-15362: the answer to an older heartbeat is adopted before the leave is built."""

    def accepts_answers_in(self, state: ClientState) -> bool:
        """LEAVING, too."""
        return state.is_in_group

    def leave_waits_for_answer(self) -> bool:
        """The leave is built only when nothing is in flight."""
        return True


class JoinsWithLeaveEpoch(MemberRules):
    """KAFKA-19335: the answer to a leave is adopted by a member that joins already."""

    def accepts_epoch(self, member_epoch: int) -> bool:
        """Any epoch is adopted."""
        return True


class KeepsPartitionsOnPollExpiry(MemberRules):
    """KAFKA-16258: a member that stopped polling leaves, but keeps its partitions."""

    def releases_on_poll_expiry(self) -> bool:
        """Neither lost callback nor clearing."""
        return False


class DeliversRevoked(MemberRules):
    """KAFKA-20332: buffered records of a partition under revocation are returned."""

    def delivers_records_of(self, partition: PartitionState) -> bool:
        """The mark is not looked at."""
        return (
            partition.fetch_state is FetchState.FETCHING
            and not partition.awaiting_assigned_callback
        )


class KeepsDeadCoordinator(MemberRules):
    """KAFKA-17293: a connection lost with a heartbeat in flight starts no search."""

    def disconnect_loses_coordinator(self) -> bool:
        """Only commits and offset fetches notice."""
        return False


class StaleMeansNoOffset(MemberRules):
    """platformatic-267: STALE_MEMBER_EPOCH on an offset fetch leads to the reset policy."""

    def takes_stale_epoch_for_no_offset(self) -> bool:
        """Records are skipped, or read again."""
        return True


class StaticLeavesForGood(MemberRules):
    """Dekaf-1348: a static member leaves with -1."""

    def leave_epoch(self, instance_id: str | None, operation: MembershipOperation) -> int:
        """Whether or not an instance id is configured."""
        return LEAVE_EPOCH


class CommitThenMark(MemberRules):
    """KAFKA-16460: partitions are marked for revocation only after the commit."""

    def stops_fetching_before_commit(self) -> bool:
        """Records are delivered while the commit is under way."""
        return False


class AcknowledgesBeforeStop(CommitThenMark):
    """mut-ack-before-stop: the reduced set is reported first, commit and callback come later."""

    def acknowledges_on_receipt(self) -> bool:
        """The reconciliation begins with its end."""
        return True


class ReconcilesAnytime(MemberRules):
    """KAFKA-18641: with auto-commit, reconciliation and interval commits do not wait for a poll."""

    def acts_outside_poll(self) -> bool:
        """Positions of records that are returned, but not processed, are committed."""
        return True


class MutePartition(MemberRules):
    """KAFKA-18160: after a failed assigned callback the partition is never fetched."""

    def clears_flag_of_all_assigned(self) -> bool:
        """Only what the second attempt added is freed, and that is nothing."""
        return False


class WildJitter(MemberRules):
    """KAFKA-19813: the jitter of the heartbeat's backoff was given as max.poll.interval.ms."""

    def heartbeat_jitter_share(self, config: ConsumerConfig) -> float:
        """Half of all backoffs are 0, the others at their maximum."""
        return float(config.max_poll_interval_ms)


class KeepsLeaveEpoch(MemberRules):
    """client C2: the epoch of a leave is not reset when the member joins again."""

    def epoch_to_join_with(self, member_epoch: int) -> int:
        """The join is another leave."""
        return member_epoch


class AdoptsLateAnswers(MemberRules):
    """client C2: answers count in every state."""

    def accepts_answers_in(self, state: ClientState) -> bool:
        """A member that is out takes an epoch over."""
        return True


class KeepsIdentityOnFence(MemberRules):
    """client C4: a fenced member goes on signing its commits."""

    def keeps_identity_on_fence(self) -> bool:
        """With the epoch that was fenced."""
        return True


class ClearsIdOnFence(MemberRules):
    """client C5: a fenced member forgets its id."""

    def member_id_after_fence(self, member_id: str) -> str:
        """It has none."""
        return ""


class RejoinsBeforeLost(MemberRules):
    """client C6: a fenced member joins again before its partitions are given up."""

    def rejoins_before_lost_callback(self) -> bool:
        """The callback comes later, if the application polls."""
        return True


class AcknowledgesBeforeApply(MemberRules):
    """client C7: the ack overtakes the taking over of the new set."""

    def acknowledges_before_assigned_callback(self) -> bool:
        """STABLE, with the old set still assigned."""
        return True


class SecondReconciliation(MemberRules):
    """client C8: a new target starts a second reconciliation beside the first."""

    def starts_second_reconciliation(self) -> bool:
        """Both run to their ends."""
        return True


class ReportsTarget(MemberRules):
    """client C10: heartbeats report the target as owned."""

    def assignment_to_report(
        self, current: LocalAssignment, target: LocalAssignment
    ) -> LocalAssignment:
        """Nothing has been revoked yet, nor assigned."""
        return target


class FetchesDuringCallback(MemberRules):
    """client C11: added partitions are fetched before onPartitionsAssigned has returned."""

    def waits_for_assigned_callback(self) -> bool:
        """No mark is set."""
        return False


class RevokesTwice(MemberRules):
    """client C13: onPartitionsRevoked runs twice for the same partitions."""

    def revoked_callback_count(self) -> int:
        """In one reconciliation."""
        return 2


class RevokesOnFence(MemberRules):
    """client C14: onPartitionsRevoked, instead of onPartitionsLost, runs after a fence."""

    def callback_of_loss(self) -> CallbackKind:
        """The member has no identity to commit with."""
        return CallbackKind.REVOKED


class KeepsSentFields(MemberRules):
    """client C18: after a failure the next heartbeat repeats nothing."""

    def resets_sent_fields_on_failure(self) -> bool:
        """What got lost stays lost."""
        return False


class SignsAtCreation(MemberRules):
    """client C22: a commit carries the identity of the moment in which it was asked for."""

    def identity_of_commit(
        self, at_creation: CommitIdentity | None, at_sending: CommitIdentity | None
    ) -> CommitIdentity | None:
        """A retry repeats the old epoch."""
        return at_creation


class CommitsUndelivered(MemberRules):
    """client C23: the position of a record that is still to be delivered is committed."""

    def offset_to_commit(self, partition: PartitionState) -> int:
        """One too far."""
        return partition.position + 1


class CommitsReleased(MemberRules):
    """client C24: automatic commits still hold partitions that were given up."""

    def forgets_released_positions(self) -> bool:
        """Their last positions are kept."""
        return False


class LeaveNeedsSuccess(MemberRules):
    """client C28: a failed leave heartbeat does not complete ``unsubscribe`` or ``close``."""

    def failure_completes_leave(self) -> bool:
        """They wait for their timeout."""
        return False


class LosesPatternWithdrawal(MemberRules):
    """sim-lost-pattern-withdrawal: found by this simulator, in the code of kafka-clients 4.3.1.

    A failure forgets what was sent, the empty pattern included, and a member without a pattern then
    looks as if nothing had changed: the withdrawal is not repeated, and the coordinator keeps the
    pattern for as long as the member lives (docs/findings.md).
    """

    def repeats_withdrawn_pattern(self) -> bool:
        return False


class HearsEveryAnswer(MemberRules):
    """mut-client-hears-every-answer: the assignor's callback runs with every answer."""

    def reports_assignment_once(self) -> bool:
        """An epoch is heard of again and again."""
        return False


class InstallsAgain(MemberRules):
    """mut-client-installs-again: a result is handed in until it is taken."""

    def installs_later(self, error_code: ErrorCode) -> bool:
        """A member that was replaced goes on trying."""
        return error_code is not ErrorCode.NONE


MEMBER_DEFECTS: Mapping[str, type[MemberRules]] = MappingProxyType(
    {
        "Dekaf-1348": StaticLeavesForGood,
        "KAFKA-16185": TargetsBySetOnly,
        "KAFKA-16198": LateNamesReplaceTarget,
        "KAFKA-16215": StuckInFlight,
        "KAFKA-16258": KeepsPartitionsOnPollExpiry,
        "KAFKA-16460": CommitThenMark,
        "KAFKA-16555": TwoHeartbeatsInFlight,
        "KAFKA-17116": IdFromCoordinator,
        "KAFKA-17293": KeepsDeadCoordinator,
        "KAFKA-18160": MutePartition,
        "KAFKA-18641": ReconcilesAnytime,
        "KAFKA-19335": JoinsWithLeaveEpoch,
        "KAFKA-19813": WildJitter,
        "KAFKA-20332": DeliversRevoked,
        "PR-15362": AnswerCancelsLeave,
        "mut-ack-before-stop": AcknowledgesBeforeStop,
        "mut-client-ack-before-apply": AcknowledgesBeforeApply,
        "mut-client-adopts-late-answers": AdoptsLateAnswers,
        "mut-client-clears-id-on-fence": ClearsIdOnFence,
        "mut-client-commits-released": CommitsReleased,
        "mut-client-commits-undelivered": CommitsUndelivered,
        "mut-client-fetches-during-callback": FetchesDuringCallback,
        "mut-client-hears-every-answer": HearsEveryAnswer,
        "mut-client-installs-again": InstallsAgain,
        "mut-client-keeps-identity-on-fence": KeepsIdentityOnFence,
        "mut-client-keeps-leave-epoch": KeepsLeaveEpoch,
        "mut-client-keeps-sent-fields": KeepsSentFields,
        "mut-client-leave-needs-success": LeaveNeedsSuccess,
        "mut-client-rejoins-before-lost": RejoinsBeforeLost,
        "mut-client-reports-target": ReportsTarget,
        "mut-client-revokes-on-fence": RevokesOnFence,
        "mut-client-revokes-twice": RevokesTwice,
        "mut-client-second-reconciliation": SecondReconciliation,
        "mut-client-signs-at-creation": SignsAtCreation,
        "platformatic-267": StaleMeansNoOffset,
        "sim-lost-pattern-withdrawal": LosesPatternWithdrawal,
    }
)
"""Every client defect and mutant by name."""
