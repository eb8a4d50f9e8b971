"""Every decision of a member in which versions or defects differ: one small method each.

``MemberRules`` decides as kafka-clients 4.3.1 does, without its defects. What a version or a defect
changes is in
``protocol/versions`` and ``protocol/defects``; nothing else in the member asks which version runs.
"""

from __future__ import annotations

from rebalance_sim.protocol.clients.common.backoff import BACKOFF_JITTER
from rebalance_sim.protocol.clients.common.commit_rules import CommitRules
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


class MemberRules(CommitRules):
    """The decisions of the Java asynchronous consumer, kafka-clients 4.3.1, without its known
    issues."""

    # --- identity (client §5) ---------------------------------------------------------------------

    def initial_member_id(self, client_made: str) -> str:
        """The id in the first heartbeat; "" asks the coordinator for one (before KIP-1082)."""
        return client_made

    heartbeat_version = 1
    """Version of the heartbeat request; 0 has ids made by the coordinator."""

    def member_id_after_fence(self, member_id: str) -> str:
        """A fenced member keeps its id."""
        return member_id

    def epoch_to_join_with(self, member_epoch: int) -> int:
        """Joining begins with epoch 0, whatever the member had before."""
        return 0

    keeps_identity_on_fence = False
    """A fenced member signs nothing any more."""

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

    leave_waits_for_answer = False
    """Whether the leave heartbeat waits until nothing is in flight."""

    stays_in_flight_after_error = False
    """Whether an error answer fails to clear the mark of a request in flight."""

    resets_sent_fields_on_failure = True
    """After any failure the next heartbeat repeats everything."""

    repeats_withdrawn_pattern = True
    """A full request says again that there is no pattern any more, as does the join of a static
    member, whose predecessor may have had one."""

    disconnect_loses_coordinator = True
    """A connection lost with a heartbeat in flight starts a search."""

    def assignment_to_report(
        self, current: LocalAssignment, target: LocalAssignment
    ) -> LocalAssignment:
        """TopicPartitions is the last finished reconciliation."""
        return current

    omits_unfinished_from_full_request = False
    """Whether an owned list, that of a full request above all, has nothing but the last finished
    reconciliation, and not what is being taken over, or given up (coordinator D12). An
    acknowledgement may be sent when the next target has been accepted already."""

    takes_answers_of_former_memberships = False
    """Whether the answer to a heartbeat from before the last join counts."""

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

    repeats_partial_acknowledgement = True
    """The ack storm: a target of which some topics have no name yet is acknowledged again and
    again, and not once (App. A, KAFKA-20145)."""

    trusts_current_after_failed_callback = False
    """Whether a target equal to the last finished assignment is acknowledged although a later one
    was taken over, whose assigned callback failed."""

    starts_second_reconciliation = False
    """Whether a reconciliation may begin while another runs."""

    acts_outside_poll = False
    """Whether automatic commits, and what waits for them, begin outside ``poll`` (2024)."""

    revokes_outside_poll = False
    """Whether a member that commits nothing itself begins to revoke between polls, as that of 4.1
    does; that of 4.3.1 does not (KAFKA-20332)."""

    skips_poll_events = True
    """While records are in the buffer every second ``poll`` submits no event (client §0.1)."""

    acknowledges_on_receipt = False
    """Whether the new set is reported before anything has been revoked."""

    stops_fetching_before_commit = True
    """Partitions to be revoked are marked before the commit, not after it (KAFKA-16460)."""

    revoked_callback_count = 1
    """How often onPartitionsRevoked runs in one reconciliation."""

    acknowledges_before_assigned_callback = False
    """Whether the ack overtakes the taking over of the new set."""

    waits_for_assigned_callback = True
    """Added partitions are not fetched before onPartitionsAssigned has returned."""

    clears_flag_of_all_assigned = True
    """A successful assigned callback frees all assigned partitions, not only the added ones."""

    # --- giving up partitions (client §4.2, §5, §6) -----------------------------------------------

    callback_of_loss = CallbackKind.LOST
    """The callback of a fence, a fatal error, a poll expiry."""

    rejoins_before_lost_callback = False
    """Whether a fenced member joins again before its partitions are given up."""

    releases_on_poll_expiry = True
    """A member that stopped polling gives its partitions up."""

    def leave_epoch(self, instance_id: str | None, operation: MembershipOperation) -> int:
        """A static member leaves for a while, unless ``close`` says otherwise (client §6.2)."""
        if instance_id is not None and operation is not MembershipOperation.LEAVE_GROUP:
            return STATIC_LEAVE_EPOCH
        return LEAVE_EPOCH

    any_answer_completes_leave = False
    """Whether a leave is complete when an earlier heartbeat is answered, and not only when an
    answer has an epoch below 0 (client §1.3, row 30)."""

    failure_completes_leave = True
    """``unsubscribe`` and ``close`` return when the leave is answered, well or badly."""

    # --- positions and records (client §7, §8) ----------------------------------------------------

    takes_stale_epoch_for_no_offset = False
    """Whether STALE_MEMBER_EPOCH on an offset fetch counts as "nothing committed"."""

    raises_what_lookups_retry = False
    """Whether an offset fetch refused by an error that passes, but for those that send the client
    to another coordinator, fails for good."""

    retakes_positions_of_retries = False
    """Whether a commit before a revocation has the positions of each attempt, and not those of its
    first."""

    repeats_lost_offsets_in_close = False
    """Whether the commit of ``close``, when it is repeated, names what the member has lost since,
    under the epoch with which it has joined again."""

    waits_for_interval_commit = True
    """No interval commit is made while the last one is under way (KAFKA-16004)."""

    gives_up_lost_topics = True
    """A commit before a revocation that was refused because a topic is gone is not repeated
    (KAFKA-16224)."""

    repeats_commit_before_revocation = True
    """A commit before a revocation that failed is repeated as long as the group waits for the
    member (KAFKA-16133)."""

    def offset_to_commit(self, partition: PartitionState) -> int:
        """The position: behind the last record that was handed out."""
        return partition.position

    forgets_released_positions = True
    """A commit of all that is consumed holds nothing that is no longer assigned."""

    def delivers_records_of(self, partition: PartitionState) -> bool:
        """Whether ``poll`` returns buffered records of an assigned partition."""
        return partition.is_fetchable

    # --- client-side assignors (coordinator §12) --------------------------------------------------

    def installs_later(self, error_code: ErrorCode) -> bool:
        """Whether a refused result is handed in again when the next heartbeat is answered."""
        return error_code is ErrorCode.STALE_MEMBER_EPOCH

    reports_assignment_once = True
    """The assignor's callback runs once per epoch, not with every answer."""
