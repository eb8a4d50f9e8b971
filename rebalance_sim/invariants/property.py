"""What a property is, how it is checked, and what is reported when it is violated.

A property is a class, discovered by import: any module below ``laws/`` may define some. One
that is not part of this package is given to the checker beside the others.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, TypeVar, cast

from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.model.quiet_period import QuietPeriod
from rebalance_sim.protocol.clients.kinds import CLIENT_KINDS
from rebalance_sim.protocol.versions.semantics import Semantics
from rebalance_sim.protocol.wire.topics import TopicPartition

_T = TypeVar("_T")

THE_GROUP = "the group"
"""The subject of what is about no one in particular."""


class Kind(StrEnum):
    """When a property must hold."""

    ALWAYS = "always"
    """An invariant: after every step."""
    EVENTUALLY = "eventually"
    """A liveness property: some time after the last fault."""
    SOMETIMES = "sometimes"
    """A reachability goal: in some run of a large sweep."""


class Deadline(Enum):
    """When something that must happen eventually is late."""

    OWN = "the property says itself"
    REMOVAL = "when members that have gone must have been removed"
    SETTLED = "when the group must have come to rest, unless only one member can compute its target"
    END = "when the group must have come to rest"


@dataclass(frozen=True, slots=True)
class Finding:
    """A violated invariant, as its class saw it.

    ``detail`` names member, partition and epochs. The other fields say who or what it is about:
    those of one ``subject`` are counted together. What is found at what a client does, is about
    that client if it names no other.
    """

    detail: str
    client: str = ""
    member: str | None = ""
    instance_id: str = ""
    partition: TopicPartition | None = None

    @builtins.property
    def subject(self) -> str:
        """Who or what it is about, in words."""
        named = {"client": self.client, "member": self.member, "instance": self.instance_id}
        parts = [f"{what} {name}" for what, name in named.items() if name]
        if self.partition is not None:
            parts.append(f"partition {self.partition.topic_id}-{self.partition.partition}")
        return ", ".join(parts) or THE_GROUP


class Late(NamedTuple):
    """Something that should have happened by now, as the class of its property saw it.
    ``since_ms`` is None if no one saw it begin."""

    subject: str
    reason: str
    since_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A finding with its place in the run; ``suspects``: the known issues of the version that may
    be the reason."""

    property: type[Property]
    step_index: int
    at_ms: int
    detail: str
    subject: str = THE_GROUP
    suspects: tuple[str, ...] = ()

    def __str__(self) -> str:
        clauses = ", ".join(self.property.clauses)
        return (
            f"{self.property.id} at step {self.step_index} ({self.at_ms} ms): "
            f"{self.detail}\n  property: {self.property.sentence} ({clauses})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stuck:
    """A liveness property that does not hold; the fields are those of ``Late``. ``suspects``: the
    known issues of the version that may be the reason."""

    property: type[Property]
    subject: str
    reason: str
    since_ms: int | None = None
    suspects: tuple[str, ...] = ()

    def __str__(self) -> str:
        since = "" if self.since_ms is None else f" since {self.since_ms} ms"
        return f"{self.property.id}: {self.subject} {self.reason}{since}"


class Replaced(NamedTuple):
    """A property that is not judged from a step on, and the rule that has acted there: it makes the
    property untrue on purpose."""

    property: str
    rule: str
    step_index: int
    at_ms: int


TRIGGERS: Mapping[str, str] = MappingProxyType(
    {
        "on_append": "a shard wrote records",
        "on_change": "a shard wrote records of the group",
        "before_request": "a shard handled any request, and the shadow model is as it was before",
        "on_heartbeat": "a heartbeat was answered, and it was not a steady one",
        "on_refused": "a heartbeat was answered with an error",
        "on_timers": "a shard armed or cancelled timers, beyond the session of the sender",
        "on_timer_fired": "a shard's timer fired",
        "on_request": "a shard handled any request",
        "on_read": "a shard answered a describe or a list",
        "on_assignment_request": "a shard answered a request of a member that computes a target",
        "on_commit": "a shard stored offsets of a commit",
        "on_loaded": "a shard became active",
        "on_unloaded": "a shard gave up",
        "on_truncated": "a log lost its tail",
        "on_committed": "a high watermark advanced",
        "on_released": "a broker let an answer go",
        "on_metadata": "a shard took a new metadata image",
        "on_client_gone": "a client process ended",
        "on_effects": "a client's event had effects",
        "on_moved": "a client's state, epoch, assignment or fetchable set changed",
        "on_sent": "a client sent a heartbeat that is not its last one repeated in time",
        "on_event": "a client takes an event that is neither a tick, a poll nor a good heartbeat",
        "on_records": "a partition got records of a transaction, or the marker of one",
        "on_escaped": "an exception escaped from a handler of a coordinator",
        "on_classic": "a shard did something to a classic group",
        "on_classic_request": "a shard handled a classic request",
        "on_classic_answer": "an answer to a classic request was let go",
        "on_classic_commit": "a shard stored offsets of a commit for a classic group",
        "on_full_check": "the group has had many steps since the last time",
        "on_ownership": "ownership moved, at the coordinator or at a client",
    }
)
"""Method that an invariant may define -> when the checker calls it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interest:
    """Of what a client takes and wants, and a shard handles, the types that matter to an invariant;
    None: all of them.

    ``events``: it is asked ``on_event`` about these only; ``refusals``: and
    about these answers where there is an error in them; ``effects``: and ``on_effects`` only where
    one of these is among them; ``requests``: and ``on_request``, ``on_released``,
    ``before_request`` and ``on_classic_request`` only about these; ``refused_requests``: and
    ``before_request`` about these where there is an error in the answer.
    ``is_in_changes``: and ``on_classic`` only where that may have changed the group, not where a
    request has left it as it was but for timers. ``is_beyond_commits``: and ``on_append`` only
    where more is written than offsets that are committed. ``is_beyond_moves``: and ``on_moved``
    also where the event of a classic client had effects, and nothing else.
    """

    events: tuple[type, ...] | None = None
    refusals: tuple[type, ...] = ()
    effects: tuple[type, ...] | None = None
    requests: tuple[type, ...] | None = None
    refused_requests: tuple[type, ...] = ()
    is_in_changes: bool = False
    is_beyond_commits: bool = False
    is_beyond_moves: bool = False


class _Notes(NamedTuple):
    """What a property remembers: what that is at first, and whether it is about processes."""

    make: Callable[[], Any]
    is_of_process: bool


class Property:
    """Something that must hold, and how that is checked.

    ``id`` never changes: it is a key in results that are kept. ``clauses`` names the rules it comes
    from: citations of the documents in docs/reference/, ``TLA+`` with a property of the model of
    client §11.3, ``KIP-848`` with a chapter. ``violated_by`` names defects and mutants
    that violate it: ids of defects, and with ``test:`` those that exist in the tests only.
    ``client_kinds`` are the kinds of client that it is about; if these are not all, the sentence
    says so.

    An invariant (``ALWAYS``) defines some of the methods of ``TRIGGERS``, each of which returns a
    ``Finding`` or None. With
    ``needs_data_plane`` it watches only worlds that have one; with ``judges_mixed`` it holds for a
    consumer group with classic members too, and when a group is converted. Without
    ``outlives_lost_commits`` it is judged no more once a new leader lacked committed records: what
    clients and answers know is then ahead of the group, which goes back in time. Without
    ``outlives_clock_steps`` it is judged no more where a client reads a clock that was set: it
    measures what the client does by the world's.

    A liveness property (``EVENTUALLY``) defines ``late``; a reachability goal (``SOMETIMES``) has
    ``counters``, one of which must be above 0 (``goal`` makes one).

    A property reads the shadow model and never writes to it. What it has to remember itself stands
    in private attributes, made with ``notes`` or ``notes_of_process``, and no one else reads them.
    """

    id: ClassVar[str]
    sentence: ClassVar[str]
    clauses: ClassVar[tuple[str, ...]] = ()
    violated_by: ClassVar[tuple[str, ...]] = ()
    kind: ClassVar[Kind] = Kind.ALWAYS
    client_kinds: ClassVar[tuple[str, ...]] = CLIENT_KINDS
    interest: ClassVar[Interest] = Interest()
    needs_data_plane: ClassVar[bool] = False
    judges_mixed: ClassVar[bool] = False
    outlives_lost_commits: ClassVar[bool] = True
    outlives_clock_steps: ClassVar[bool] = True
    is_seen_from_outside: ClassVar[bool] = False
    """Whether it can be judged of a real client, of which nothing is known but what it sends, what
    it is answered and what its application learns."""
    deadline: ClassVar[Deadline] = Deadline.SETTLED
    counters: ClassVar[tuple[str, ...]] = ()
    only_with: ClassVar[str | None] = None
    """Of a goal: a counter without which a sweep has nothing to do with it."""

    _declared: ClassVar[Mapping[str, _Notes]] = MappingProxyType({})
    """What it remembers; each begins with its own."""
    remembers_processes: ClassVar[bool] = False
    """Whether it is to learn of new processes by ``forget_process``."""

    def __init_subclass__(cls) -> None:
        own = {name: value for name, value in vars(cls).items() if isinstance(value, _Notes)}
        cls._declared = MappingProxyType({**cls._declared, **own})
        cls.remembers_processes = any(one.is_of_process for one in cls._declared.values())
        for name in own:
            delattr(cls, name)

    def __init__(self, model: ModelView) -> None:
        self.model = model
        for name, declared in self._declared.items():
            setattr(self, name, declared.make())

    def forget_process(self, client: str) -> None:
        """A new process of this client starts."""
        for name, declared in self._declared.items():
            known = getattr(self, name) if declared.is_of_process else {}
            if isinstance(known, dict):
                known.pop(client, None)
            else:
                known.discard(client)

    def late(self, quiet: QuietPeriod, at_ms: int) -> Iterable[Late]:
        """What has not happened; asked when the ``deadline`` has passed."""
        raise NotImplementedError(f"{type(self).__name__} is no liveness property")

    @classmethod
    def is_met(cls, coverage: Mapping[str, int]) -> bool:
        """Whether a goal was reached, or was not to be expected. ``coverage`` counts what the runs
        of a sweep have visited (``Checker.coverage`` and the simulator's own, added up)."""
        if cls.only_with is not None and not coverage.get(cls.only_with, 0):
            return True
        return any(coverage.get(name, 0) > 0 for name in cls.counters)

    @classmethod
    def applies_to(cls, semantics: Semantics) -> bool:
        """Whether these semantics have what the property is about; else no one is asked."""
        return True

    @classmethod
    def triggers(cls) -> tuple[str, ...]:
        """The triggers that this class listens to."""
        return tuple(name for name in TRIGGERS if hasattr(cls, name))


def notes(make: Callable[[], _T]) -> _T:
    """An attribute of a class of properties: what each of them remembers; ``make`` gives what that
    is at first."""
    return cast(_T, _Notes(make, is_of_process=False))


def notes_of_process(make: Callable[[], _T]) -> _T:
    """Likewise, a dict or a set by client; what it says of one is forgotten when a process of it
    starts: that one has sent, heard and been asked nothing yet."""
    return cast(_T, _Notes(make, is_of_process=True))


def goal(
    property_id: str, sentence: str, *counters: str, only_with: str | None = None
) -> type[Property]:
    """A reachability goal: a large sweep must have visited one of the ``counters``."""
    members = {
        "__doc__": sentence,
        "id": property_id,
        "sentence": sentence,
        "kind": Kind.SOMETIMES,
        "counters": counters,
        "only_with": only_with,
    }
    return type("Goal", (Property,), members)
