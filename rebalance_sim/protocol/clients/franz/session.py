"""A group session: from one assignment to the next. What goes is revoked, what comes is announced
and looked up, heartbeats go out meanwhile; its end is a revocation as well.

Source: franz §4. The application holds rebalances off from a poll that has handed records out to
its next one (``BlockRebalanceOnPoll``); a callback runs there, and keeps it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial

from rebalance_sim.protocol.clients.common.application import Application, CallbackTask
from rebalance_sim.protocol.clients.common.values import CallbackKind, FetchState, nobody_listens
from rebalance_sim.protocol.clients.franz.franz_commits import FranzCommits
from rebalance_sim.protocol.clients.franz.franz_core import FranzCore
from rebalance_sim.protocol.clients.franz.offset_fetches import OffsetFetches
from rebalance_sim.protocol.wire.topics import TopicPartition

_NOTHING: frozenset[TopicPartition] = frozenset()

Then = Callable[[], None]


class Session:
    """The session under way, and what the application learns between two of them.

    ``on_prerevoked`` is called when what the assignment does not name any more has been given up.
    """

    def __init__(
        self,
        core: FranzCore,
        application: Application,
        commits: FranzCommits,
        fetches: OffsetFetches,
    ) -> None:
        self._core = core
        self._application = application
        self._commits = commits
        self._fetches = fetches
        self._gated: deque[Then] = deque()  # what waits for a poll, without a listener
        self._is_set_up = True  # the assigned callback has returned
        self._at_end: Then | None = None  # what is to follow as soon as it has
        self._is_ending = False
        self.is_open = False
        self.is_prerevoking = False
        self.on_prerevoked: Callable[[bool], None] = nobody_listens

    @property
    def is_at_rest(self) -> bool:
        """Whether it has begun, and its callbacks are over."""
        return self.is_open and self._is_set_up and not self._is_ending

    @property
    def waits_for_poll(self) -> bool:
        """Whether something but a callback waits for the application."""
        return bool(self._gated)

    # --- the gate ---------------------------------------------------------------------------------

    def on_poll(self) -> None:
        """The application allows rebalances."""
        while self._gated:
            self._gated.popleft()()

    def _call_back(
        self, kind: CallbackKind, partitions: frozenset[TopicPartition], begin: Then, then: Then
    ) -> None:
        """When the application allows it, do ``begin``, let it know, and go on with ``then``."""
        self._core.change_count += 1
        if self._core.subscription.has_listener:
            done = partial(_after_callback, then)
            task = CallbackTask(kind, partitions, done, may_start=partial(_begin, begin))
            self._application.queue_callback(task)
        elif kind is CallbackKind.ASSIGNED:
            then()
        else:
            self._gated.append(partial(self._without_listener, kind, begin, then))

    def _without_listener(self, kind: CallbackKind, begin: Then, then: Then) -> None:
        """Without callbacks of the application a revocation is committed, and a loss is not."""
        begin()
        if kind is CallbackKind.REVOKED:
            self._commits.commit_revoked(then)
        else:
            then()

    def drop_all(self, then: Then) -> None:
        """The group has gone from cooperative to eager: what is left of the last session is
        revoked, as if that had been eager."""
        core = self._core
        held = core.last_assigned
        if not held:
            core.is_downgraded = False
            then()
            return
        done = partial(self._after_drop, then)
        self._call_back(CallbackKind.REVOKED, held, partial(self._stop, held), done)

    def _after_drop(self, then: Then) -> None:
        core = self._core
        given = core.now_assigned
        self._forget()
        core.now_assigned, core.is_downgraded = given, False
        then()

    # --- its beginning ----------------------------------------------------------------------------

    def begin(self) -> None:
        """The group has given ``now_assigned``."""
        core = self._core
        now = core.now_assigned or _NOTHING
        before = core.last_assigned if core.is_cooperative else _NOTHING
        added, lost = now - before, before - now
        core.last_assigned = now
        core.fetching = added if not core.is_cooperative else (core.fetching - lost) | added
        self.is_open = True
        self._is_set_up = self._is_ending = False
        self._at_end = None
        core.subscription.assign(now | lost, added_await_callback=True)
        if lost:
            self.is_prerevoking = True
            self._call_back(
                CallbackKind.REVOKED,
                lost,
                partial(self._stop, lost),
                partial(self._after_prerevoke, added, lost),
            )
        else:
            self._after_prerevoke(added, lost)

    def _stop(self, partitions: frozenset[TopicPartition]) -> None:
        self._core.subscription.mark_pending_revocation(partitions)

    def _after_prerevoke(
        self, added: frozenset[TopicPartition], lost: frozenset[TopicPartition]
    ) -> None:
        core = self._core
        self.is_prerevoking = False
        if lost:
            kept = frozenset(core.subscription.assigned.keys() - lost)
            core.subscription.assign(kept, added_await_callback=True)
            self._commits.forget(lost)
        core.current = core.target._replace(partitions=core.last_assigned)
        self.on_prerevoked(bool(lost))
        self._call_back(CallbackKind.ASSIGNED, added, nobody_listens, self._after_assign)

    def _after_assign(self) -> None:
        core = self._core
        self._is_set_up = True
        core.change_count += 1
        core.subscription.on_assigned_callback_done(None)
        at_end, self._at_end = self._at_end, None
        if not core.is_leaving:
            self._fetches.begin()
        if at_end is not None:
            at_end()

    # --- its end ----------------------------------------------------------------------------------

    def end(self, then: Then) -> None:
        """There is another assignment, or one is to be made: tell the application, and go on. Who
        rebalances cooperatively keeps all that it has, and hears of nothing."""
        self._when_set_up(partial(self._revoke, then))

    def break_off(self, then: Then) -> None:
        """The membership is over, or the application wants it to be: ``then`` follows as soon as
        the application has heard of the assignment."""
        self._when_set_up(partial(self._leave_off, then))

    def _when_set_up(self, then: Then) -> None:
        self._core.change_count += 1
        self._is_ending = True
        if self._is_set_up:
            then()
        else:
            self._at_end = then

    def _leave_off(self, then: Then) -> None:
        self.is_open = False
        self._fetches.cancel()
        then()

    def _revoke(self, then: Then) -> None:
        core = self._core
        all_of_it = _NOTHING if core.is_cooperative else frozenset(core.subscription.assigned)
        self._call_back(
            CallbackKind.REVOKED,
            all_of_it,
            partial(self._begin_revocation, all_of_it),
            partial(self._after_revocation, then),
        )

    def _begin_revocation(self, partitions: frozenset[TopicPartition]) -> None:
        self._fetches.cancel()
        if partitions:
            self._stop(partitions)

    def _after_revocation(self, then: Then) -> None:
        self.is_open = False
        if not self._core.is_cooperative:
            self._forget()
        then()

    def give_up(self, kind: CallbackKind, then: Then) -> None:
        """Tell the application that all is lost, or, as it leaves, revoked; then it is. It fetches
        on until it has heard of a loss."""
        core = self._core
        is_lost = kind is CallbackKind.LOST
        held = frozenset(core.subscription.assigned)
        if not is_lost and not core.rules.tells_of_what_it_has:
            held = core.now_assigned or _NOTHING
        self._call_back(
            kind,
            held,
            nobody_listens if is_lost else partial(self._stop, held),
            partial(self._after_all, then),
        )

    def _after_all(self, then: Then) -> None:
        self._forget()
        then()

    def rename(
        self, renamed: Mapping[TopicPartition, TopicPartition], *, fetch_state: FetchState
    ) -> None:
        """The topics of what is assigned have other ids than before."""
        core = self._core

        def new(partitions: frozenset[TopicPartition]) -> frozenset[TopicPartition]:
            return frozenset(renamed.get(p, p) for p in partitions)

        core.last_assigned, core.fetching = new(core.last_assigned), new(core.fetching)
        core.now_assigned = None if core.now_assigned is None else new(core.now_assigned)
        core.target = core.target._replace(partitions=new(core.target.partitions))
        core.current = core.current._replace(partitions=new(core.current.partitions))
        present = {p: renamed[p] for p in renamed if p in core.subscription.assigned}
        self._commits.forget(frozenset(present))
        if present:
            core.subscription.rename(present, fetch_state=fetch_state)
        if present and fetch_state is FetchState.INITIALIZING:
            # Whatever was asked for under the name of a topic, answered or not, is not of its id.
            core.fetching |= core.last_assigned.intersection(present.values())
            self._fetches.cancel()
            if self.is_at_rest:
                self._fetches.begin()

    def _forget(self) -> None:
        core = self._core
        self._commits.forget(frozenset(core.subscription.assigned))
        core.subscription.clear()
        core.now_assigned = None
        core.last_assigned = core.fetching = _NOTHING
        core.change_count += 1


def _after_callback(then: Then, failed: bool) -> None:
    """A callback of Go has no error to return."""
    then()


def _begin(begin: Then) -> bool:
    begin()
    return True
