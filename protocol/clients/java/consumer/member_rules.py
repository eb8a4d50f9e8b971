"""Every decision of a member in which versions or defects differ: one small method each.

``MemberRules`` decides as kafka-clients 4.3.1 does. What a version or a defect changes is in
``protocol/versions`` and ``protocol/defects``; nothing else in the member asks which version runs.
"""

from __future__ import annotations

from rebalance_sim.protocol.clients.common.backoff import BACKOFF_JITTER
from rebalance_sim.protocol.clients.common.consumer_config import ConsumerConfig
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.values import (
    CallbackKind,
    CommitIdentity,
    LocalAssignment,
    MembershipOperation,
    PartitionState,
)
from rebalance_sim.protocol.wire.consumer_messages import LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import TopicPartition


class MemberRules:
    """The decisions of the Java asynchronous consumer, kafka-clients 4.3.1."""

    # --- identity (client §5) ---------------------------------------------------------------------

    def initial_member_id(self, client_made: str) -> str:
        """The id in the first heartbeat; "" asks the coordinator for one (before KIP-1082)."""
        return client_made

    def heartbeat_version(self) -> int:
        """Version of the heartbeat request; 0 has ids made by the coordinator."""
        return 1

    def member_id_after_fence(self, member_id: str) -> str:
        """A fenced member keeps its id."""
        return member_id

    def epoch_to_join_with(self, member_epoch: int) -> int:
        """Joining begins with epoch 0, whatever the member had before."""
        return 0

    def keeps_identity_on_fence(self) -> bool:
        """A fenced member signs nothing any more."""
        return False

    def identity_of_commit(
        self, at_creation: CommitIdentity | None, at_sending: CommitIdentity | None
    ) -> CommitIdentity | None:
        """A commit carries the identity of the moment in which it is sent (client §7)."""
        return at_sending

    # --- heartbeats (client §2, §3) ---------------------------------------------------------------

    def forgets_request_in_flight(
        self, now_ms: int, last_response_ms: int | None, sent_since_response: int
    ) -> bool:
        """Whether a heartbeat in flight is overlooked."""
        return False

    def heartbeat_jitter_share(self, config: ConsumerConfig) -> float:
        """Share by which the heartbeat's backoff may differ from its nominal length
        (client §2.2)."""
        return BACKOFF_JITTER

    def leave_waits_for_answer(self) -> bool:
        """Whether the leave heartbeat waits until nothing is in flight."""
        return False

    def stays_in_flight_after_error(self) -> bool:
        """Whether an error answer fails to clear the mark of a request in flight."""
        return False

    def resets_sent_fields_on_failure(self) -> bool:
        """After any failure the next heartbeat repeats everything."""
        return True

    def repeats_withdrawn_pattern(self) -> bool:
        """A full request says again that there is no pattern any more."""
        return True

    def disconnect_loses_coordinator(self) -> bool:
        """A connection lost with a heartbeat in flight starts a search."""
        return True

    def assignment_to_report(
        self, current: LocalAssignment, target: LocalAssignment
    ) -> LocalAssignment:
        """TopicPartitions is the last finished reconciliation."""
        return current

    def accepts_answers_in(self, state: ClientState) -> bool:
        """Whether epoch and assignment of a good answer count in ``state`` (client §1.3, rows 20,
        30 and 36)."""
        return state.is_in_group and state is not ClientState.LEAVING

    def accepts_epoch(self, member_epoch: int) -> bool:
        """The answer to a leave, with its epoch below 0, is nothing to adopt."""
        return member_epoch >= 0

    # --- targets and reconciliation (client §4) ---------------------------------------------------

    def next_target(
        self,
        received: frozenset[TopicPartition],
        target: LocalAssignment,
        current: LocalAssignment,
    ) -> LocalAssignment:
        """Anything but the partitions of the present target is a new one (client §0.2)."""
        if target.local_epoch >= 0 and received == target.partitions:
            return target
        return LocalAssignment(target.local_epoch + 1, received)

    def target_after_late_names(
        self, target: LocalAssignment, late: frozenset[TopicPartition]
    ) -> LocalAssignment:
        """What to reconcile to when names of ``late`` have just become known: the whole target."""
        return target

    def acknowledges_unresolved_target(self) -> bool:
        """The ack storm: an unresolved target is acknowledged in part, again and again (App. A)."""
        return True

    def starts_second_reconciliation(self) -> bool:
        """Whether a reconciliation may begin while another runs."""
        return False

    def acts_outside_poll(self) -> bool:
        """Whether automatic commits, and what waits for them, begin outside ``poll`` (2024)."""
        return False

    def acknowledges_on_receipt(self) -> bool:
        """Whether the new set is reported before anything has been revoked."""
        return False

    def stops_fetching_before_commit(self) -> bool:
        """Partitions to be revoked are marked before the commit, not after it (KAFKA-16460)."""
        return True

    def revoked_callback_count(self) -> int:
        """How often onPartitionsRevoked runs in one reconciliation."""
        return 1

    def acknowledges_before_assigned_callback(self) -> bool:
        """Whether the ack overtakes the taking over of the new set."""
        return False

    def waits_for_assigned_callback(self) -> bool:
        """Added partitions are not fetched before onPartitionsAssigned has returned."""
        return True

    def clears_flag_of_all_assigned(self) -> bool:
        """A successful assigned callback frees all assigned partitions, not only the added ones."""
        return True

    # --- giving up partitions (client §4.2, §5, §6) -----------------------------------------------

    def callback_of_loss(self) -> CallbackKind:
        """The callback of a fence, a fatal error, a poll expiry."""
        return CallbackKind.LOST

    def stops_fetching_when_lost(self) -> bool:
        """Whether lost partitions stop being fetched before onPartitionsLost ends (KAFKA-20321)."""
        return False

    def rejoins_before_lost_callback(self) -> bool:
        """Whether a fenced member joins again before its partitions are given up."""
        return False

    def releases_on_poll_expiry(self) -> bool:
        """A member that stopped polling gives its partitions up."""
        return True

    def leave_epoch(self, instance_id: str | None, operation: MembershipOperation) -> int:
        """A static member leaves for a while, unless ``close`` says otherwise (client §6.2)."""
        if instance_id is not None and operation is not MembershipOperation.LEAVE_GROUP:
            return STATIC_LEAVE_EPOCH
        return LEAVE_EPOCH

    def failure_completes_leave(self) -> bool:
        """``unsubscribe`` and ``close`` return when the leave is answered, well or badly."""
        return True

    # --- positions and records (client §7, §8) ----------------------------------------------------

    def takes_stale_epoch_for_no_offset(self) -> bool:
        """Whether STALE_MEMBER_EPOCH on an offset fetch counts as "nothing committed"."""
        return False

    def offset_to_commit(self, partition: PartitionState) -> int:
        """The position: behind the last record that was handed out."""
        return partition.position

    def forgets_released_positions(self) -> bool:
        """A commit of all that is consumed holds nothing that is no longer assigned."""
        return True

    def delivers_records_of(self, partition: PartitionState) -> bool:
        """Whether ``poll`` returns buffered records of an assigned partition."""
        return partition.is_fetchable

    # --- client-side assignors (coordinator §12) --------------------------------------------------

    def installs_later(self, error_code: ErrorCode) -> bool:
        """Whether a refused result is handed in again when the next heartbeat is answered."""
        return error_code is ErrorCode.STALE_MEMBER_EPOCH

    def reports_assignment_once(self) -> bool:
        """The assignor's callback runs once per epoch, not with every answer."""
        return True
