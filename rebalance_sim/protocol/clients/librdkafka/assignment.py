"""The partitions that the application works on: taken over, looked up, given up.

Source: client §10.1 (rows "something revoked", "assigned"). What is given up is committed; what is
taken over is looked up, once no commit is open and no other look-up under way; when nothing of both
is left, the assignment is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.committed_offsets import apply_committed_offsets
from rebalance_sim.protocol.clients.common.effects import SendOffsetFetch
from rebalance_sim.protocol.clients.common.requests import COORDINATOR_LOST, Loss
from rebalance_sim.protocol.clients.common.values import FetchState, nobody_listens
from rebalance_sim.protocol.clients.librdkafka.coordinator_connection import CoordinatorLink
from rebalance_sim.protocol.clients.librdkafka.librdkafka_commits import Commits
from rebalance_sim.protocol.clients.librdkafka.librdkafka_core import LibrdkafkaCore
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import (
    NO_OFFSET,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from rebalance_sim.protocol.wire.topics import TopicPartition

_NOTHING: frozenset[TopicPartition] = frozenset()

_RETRIED = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)


class Assignment:
    """What is assigned, and how far each part of it is.

    ``retry_due_ms``: when a look-up that has failed is made again, if there is a coordinator.

    ``on_done`` is called, perhaps more often than needed, when no operation is under way.
    ``without_id`` says of which partitions the topic is known by name alone: nothing is looked up
    there before its id is known (``rename``).
    """

    def __init__(
        self,
        core: LibrdkafkaCore,
        application: Application,
        commits: Commits,
        link: CoordinatorLink,
    ) -> None:
        self._core = core
        self._application = application
        self._commits = commits
        self._link = link
        self._pending = _NOTHING  # to be looked up
        self._queried = _NOTHING  # of these, what the look-up under way is about
        self.retry_due_ms: int | None = None
        self._retries = 0
        self._removed: dict[TopicPartition, int] = {}  # stored offsets of what was given up
        self.on_done: Callable[[], None] = nobody_listens
        self.without_id: Callable[[Iterable[TopicPartition]], frozenset[TopicPartition]] = _none

    # --- changes; ``serve`` follows on each -------------------------------------------------------

    def add(self, partitions: frozenset[TopicPartition]) -> None:
        """Take partitions over."""
        subscription = self._core.subscription
        new = partitions - subscription.assigned.keys()
        if new:
            owned = new | subscription.assigned.keys()
            subscription.assign(owned, added_await_callback=False)
            unknown = self.without_id(new)
            for partition in sorted(unknown):
                subscription.set_fetch_state(partition, FetchState.AWAIT_VALIDATION)
            self._pending |= new - unknown

    def remove(self, partitions: frozenset[TopicPartition]) -> None:
        """Give partitions up; what is not assigned is left out."""
        subscription = self._core.subscription
        gone = partitions & subscription.assigned.keys()
        if not gone:
            return
        self._removed |= self._commits.take_stored(gone)
        subscription.assign(
            frozenset(subscription.assigned.keys() - gone), added_await_callback=False
        )
        self._pending -= gone
        self._queried -= gone

    def rename(
        self, renamed: Mapping[TopicPartition, TopicPartition], *, fetch_state: FetchState
    ) -> None:
        """The topics of what is assigned have other ids than before: it is that far on the way to
        a position there. What is not assigned is left out."""
        subscription = self._core.subscription
        present = {p: renamed[p] for p in renamed if p in subscription.assigned}
        if not present:
            return
        subscription.rename(present, fetch_state=fetch_state)
        self._commits.take_stored(frozenset(present))
        self._pending -= present.keys()
        self._queried -= present.keys()
        if fetch_state is FetchState.INITIALIZING:
            self._pending |= frozenset(present.values())

    def clear(self) -> None:
        """Give everything up."""
        self.remove(frozenset(self._core.subscription.assigned))

    # --- carrying them out ------------------------------------------------------------------------

    @property
    def is_in_progress(self) -> bool:
        """Whether a commit or a look-up is under way, or still to come."""
        return self._commits.is_open or bool(self._pending or self._queried)

    def serve(self) -> None:
        """Commit what was given up, look up what was taken over, or say that all is done."""
        core = self._core
        if self._removed:
            removed, self._removed = self._removed, {}
            if not core.is_lost:
                self._commits.commit_removed(removed)
        if self._pending and not self._commits.is_open:
            self._query()
        if not self.is_in_progress:
            self.on_done()

    def _query(self) -> None:
        if not self._link.is_up() or self._queried:
            return
        self._queried, self._pending = self._pending, _NOTHING
        self._retries = 0
        self._send()

    def _send(self) -> None:
        core = self._core
        self.retry_due_ms = None
        core.requests.send(
            SendOffsetFetch,
            request=OffsetFetchRequest(
                group_id=core.config.group_id,
                partitions=self._queried,
                wire_topics=core.wire_topics_of(self._queried),
            ),
            on_answered=partial(self._on_answered, self._queried),
            on_lost=self._on_lost,
        )

    def run(self) -> None:
        """Try a failed look-up again when its backoff is over."""
        due_ms = self.retry_due_ms
        if due_ms is None or not self._link.is_up() or self._core.now_ms < due_ms:
            return
        if self._queried:
            self._send()
        else:
            self.retry_due_ms = None
            self.serve()

    @property
    def deadline_ms(self) -> int | None:
        """When ``run`` has something to do."""
        due_ms = self.retry_due_ms
        return due_ms if due_ms is not None and self._link.is_up() else None

    # --- answers ----------------------------------------------------------------------------------

    def _on_answered(
        self, asked_for: frozenset[TopicPartition], response: OffsetFetchResponse
    ) -> None:
        answered = asked_for & self._queried  # without what has been given up meanwhile
        error_code = response.error_code
        if error_code is ErrorCode.NONE and response.errors:
            error_code = response.errors[min(response.errors)]
        if error_code is not ErrorCode.NONE:
            self._fail(error_code)
            return
        self._queried -= answered
        offsets = {p: response.offsets.get(p, NO_OFFSET) for p in sorted(answered)}
        for partition, offset in offsets.items():
            self._commits.set_committed(partition, offset)
        apply_committed_offsets(self._core, offsets)
        self.serve()

    def _on_lost(self, loss: Loss) -> None:
        self._retry()

    def _fail(self, error_code: ErrorCode) -> None:
        if error_code in COORDINATOR_LOST:
            self._link.search()
        elif error_code in (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            self._core.expedite_heartbeat()
        elif error_code not in _RETRIED:
            self._application.queue_error(error_code, "Failed to fetch committed offsets")
        self._retry()

    def _retry(self) -> None:
        self.retry_due_ms = self._core.now_ms + self._core.draw_backoff_ms(self._retries)
        self._retries += 1


def _none(partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
    """With partitions by id none is without."""
    return _NOTHING
