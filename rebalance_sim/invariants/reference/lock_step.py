"""The reference of a run: makes its machines in pairs, and collects where they differ."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from rebalance_sim.invariants.reference.coordinator_pair import Beside, CoordinatorPair
from rebalance_sim.invariants.reference.difference import (
    Difference,
    about,
    given,
    name_of_partitions,
    parts,
)
from rebalance_sim.invariants.reference.tree import Tree
from rebalance_sim.invariants.step import Step, StepKind
from rebalance_sim.protocol.clients.common.group_member import GroupMember
from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.versions.semantics import Semantics
from rebalance_sim.protocol.wire.topics import TopicPartition

_SHOWN = (
    *("state", "member_id", "member_epoch", "coordinator_id", "next_deadline_ms", "poll_due_ms"),
    *("next_heartbeat_due_ms", "heartbeats_in_flight", "is_closed", "leave_is_pending"),
    *("commit_identity", "fetchable", "deliverable", "assigned", "is_reconciling"),
    *("poll_expired", "has_subscription", "subscribed_topic_names", "subscribed_topic_regex"),
    *("metadata_topics", "is_polling", "last_poll_at_ms"),
)
"""What a member shows to its host, and to those that watch it."""


@dataclass(slots=True)
class _Pair:
    """The reference of one member; ``drawn``: the jitter that the member has drawn."""

    member: GroupMember
    reference: Any
    drawn: deque[float]
    has_differed: bool = False


class LockStep:
    """Makes the machines of one world, each with its reference, and notes what differs.

    ``semantics_of`` gives the semantics of the reference from those of the run; ``tree`` has its
    machines. A coordinator is compared after a difference as before it, a member is not: what
    follows in it may be a consequence. ``differences`` has the first of each kind of decision,
    ``counts`` how many there were of it; ``on_difference`` is called with each.
    ``ends_at_difference``: nothing is compared after the first.
    """

    def __init__(
        self,
        semantics_of: Callable[[Semantics], Any],
        tree: Tree | None = None,
        on_difference: Callable[[Difference], object] = lambda one: None,
        *,
        ends_at_difference: bool = False,
    ) -> None:
        self.is_over = False
        """Nothing is compared any more."""
        self._ends_at_difference = ends_at_difference
        self.differences: list[Difference] = []
        self.counts: Counter[tuple[str, str, str]] = Counter()
        self.compared = 0
        self._semantics_of = semantics_of
        self._tree = tree or Tree()
        self._on_difference = on_difference
        self._besides: list[Beside] = []
        self._pairs: dict[int, _Pair] = {}
        self._open: list[Callable[..., Difference]] = []
        """Differences whose step is not over: given its index and time."""
        self._last: Step | None = None

    @property
    def count(self) -> int:
        """How many decisions differ."""
        return self.counts.total()

    @property
    def decisions_compared(self) -> int:
        """How many decisions of coordinators and members were compared."""
        return self.compared + sum(one.compared for one in self._besides)

    # --- machines ---------------------------------------------------------------------------------

    def coordinator(self, **settings: Any) -> GroupCoordinator:
        """The coordinator of a shard that begins to load; settings are those of its class."""
        return CoordinatorPair([self.beside(**settings)], **settings)

    def beside(self, **settings: Any) -> Beside:
        """The reference of a coordinator that is made with these settings."""
        mine = settings["semantics"]
        theirs = self._semantics_of(mine)
        if mine == mine.of_transactions:
            theirs = theirs.of_transactions
        beside = Beside(watch=self, tree=self._tree, **settings | {"semantics": theirs})
        self._besides.append(beside)
        return beside

    def member(
        self,
        make: Callable[[Callable[[], float]], GroupMember],
        jitter: Callable[[], float],
        *,
        version: str | None,
        semantics: Semantics,
    ) -> GroupMember:
        """The member of a new process. ``make`` makes it, given what draws its jitter; ``version``
        is that of its library, None for the one that its kind is."""
        drawn: deque[float] = deque()

        def draw() -> float:
            drawn.append(jitter())
            return drawn[-1]

        member = make(draw)
        drawn.clear()
        theirs = self._semantics_of(semantics)
        kind = self._tree.kinds[member.kind]
        config: Any = member.config
        if kind.is_classic:
            own = (type(kind.assignors[assignor.name]) for assignor in config.assignors)
            config = replace(config, assignors=tuple(theirs.rules(one)() for one in own))
        reference = kind.make(
            self._tree.new_member(
                config=config,
                member_id=member.member_id,
                rules=self._tree.client_rules(kind, version, theirs),
                jitter=lambda: drawn.popleft() if drawn else 0.0,
                now_ms=member.now_ms,
            )
        )
        drawn.clear()
        self._pairs[id(member)] = _Pair(member, reference, drawn)
        return member

    # --- steps ------------------------------------------------------------------------------------

    def after_step(self, step: Step) -> None:
        """A step has happened: compare what a member did in it, and say where differences were."""
        client = step.client
        if step.kind is StepKind.CLIENT_EVENT and client is not None:
            pair = self._pairs.get(id(client.member))
            if pair is not None and not pair.has_differed:
                self._compare(step, pair, client.name)
        self._last = step
        if self._open:
            self.at_end()

    def at_end(self) -> None:
        """A coordinator of transactions may decide after the last step: say so, too."""
        for one in self._open:
            if not self.is_over and self._last is not None:
                self._note(one(step_index=self._last.index, at_ms=self._last.at_ms))
        self._open.clear()

    def _note(self, one: Difference) -> None:
        if one.decision not in self.counts:
            self.differences.append(one)
        self.counts[one.decision] += 1
        self.is_over = self._ends_at_difference
        self._on_difference(one)

    def note_coordinator(
        self, pair: CoordinatorPair, event: Any, what: str, decided: Any, reference: Any
    ) -> None:
        """A coordinator and its reference have decided differently."""
        self._differ(
            parts(what, decided, reference, name_of_partitions(pair.image)),
            machine="coordinator",
            name=f"the coordinator of term {pair.term}",
            about=about(event),
            given=event if isinstance(event, str) else given(event),
        )

    def _differ(self, found: tuple[str, str, str], **of: str) -> None:
        """Note a difference, once its step is over."""
        what, decided, reference = found
        has: dict[str, Any] = {**of, "what": what, "decided": decided, "reference": reference}
        self._open.append(partial(Difference, **has))

    def _compare(self, step: Step, pair: _Pair, name: str) -> None:
        member = pair.member
        self.compared += 1
        found: tuple[str, Any, Any] | None = None
        try:
            effects = pair.reference.on_event(step.event, now_ms=member.now_ms)
        except Exception as problem:
            found = ("what comes of it", step.effects, problem)
        else:
            if effects != step.effects:
                found = ("effects", step.effects, effects)
            else:
                found = _first_shown(member, pair.reference)
        if found is None and pair.drawn:
            found = ("jitter drawn", len(pair.drawn), 0)
        pair.drawn.clear()
        if found is not None:
            pair.has_differed = True
            shown = parts(found[0], found[1], found[2], _name_of)
            self._differ(shown, machine=member.kind, name=name, about="", given=given(step.event))


class LockSteps:
    """Several references in one run, each until its first difference at most.

    ``of_coordinators`` and ``of_members``: those that may decide otherwise there; the others have
    no machines beside these. ``on_over`` is called when all have differed.
    """

    def __init__(
        self,
        of_coordinators: Sequence[LockStep],
        of_members: Sequence[LockStep],
        on_over: Callable[[], object],
    ) -> None:
        self._of_coordinators = of_coordinators
        self._of_members = of_members
        self._compared = tuple(dict.fromkeys((*of_coordinators, *of_members)))
        self._on_over = on_over

    def coordinator(self, **settings: Any) -> GroupCoordinator:
        """As of ``LockStep``."""
        besides = [one.beside(**settings) for one in self._of_coordinators if not one.is_over]
        return CoordinatorPair(besides, **settings)

    def member(
        self,
        make: Callable[[Callable[[], float]], GroupMember],
        jitter: Callable[[], float],
        **settings: Any,
    ) -> GroupMember:
        """As of ``LockStep``: each draws what the next one makes a member with."""
        for one in self._of_members:
            if not one.is_over:
                make = partial(one.member, make, **settings)
        return make(jitter)

    def after_step(self, step: Step) -> None:
        """As of ``LockStep``."""
        for one in self._compared:
            one.after_step(step)
        if any(one.is_over for one in self._compared):
            self._compared = tuple(one for one in self._compared if not one.is_over)
        if not self._compared:
            self._on_over()

    def at_end(self) -> None:
        """As of ``LockStep``."""
        for one in self._compared:
            one.at_end()


def _first_shown(member: Any, reference: Any) -> tuple[str, Any, Any] | None:
    for name in _SHOWN:
        decided, theirs = _look(member, name), _look(reference, name)
        if decided != theirs:
            return name, decided, theirs
    return None


def _name_of(partition: TopicPartition) -> str:
    return f"{partition.topic_id}-{partition.partition}"


def _look(member: Any, name: str) -> Any:
    try:
        found = getattr(member, name)
    except Exception as problem:  # what a member does not show is compared, too
        return type(problem).__name__
    return {p: repr(state) for p, state in found.items()} if name == "assigned" else found
