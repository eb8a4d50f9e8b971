"""What a property is, how a class checks it, and what it reports when it is violated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar

from rebalance_sim.invariants.engine.step import WorldView
from rebalance_sim.invariants.model.shadow_model import ShadowModel
from rebalance_sim.protocol.clients import GroupMember
from rebalance_sim.protocol.clients.kinds import CLIENT_KINDS
from rebalance_sim.protocol.versions.semantics import Semantics

__all__ = [
    "TRIGGERS",
    "Finding",
    "Interest",
    "Property",
    "PropertySpec",
    "Violation",
    "first_among_living",
]

_NO_EVIDENCE: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertySpec:
    """One thing that must hold.

    ``id`` never changes: it is a key in results that are kept. ``clauses`` names the rules it comes
    from: citations of the documents in docs/reference/, ``TLA+`` with a property of the model of
    client §11.3, ``KIP-848`` with a chapter. ``violated_by`` names defects and mutants
    that violate it: ids of defects, and with ``test:`` those that exist in the tests only.
    ``kinds`` are the kinds of client that it is about; if these are not all, the sentence says so.
    """

    id: str
    sentence: str
    clauses: tuple[str, ...]
    violated_by: tuple[str, ...] = ()
    kinds: tuple[str, ...] = CLIENT_KINDS


@dataclass(frozen=True, slots=True)
class Finding:
    """A violated property, as its class saw it.

    ``detail`` names member, partition and epochs. ``evidence`` holds the facts by which a defect
    that the simulated version is known to have can be recognised (``known.py``).
    """

    detail: str
    evidence: Mapping[str, object] = field(default_factory=lambda: _NO_EVIDENCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A finding with its place in the run. ``known_as`` is the defect that explains it, or None."""

    spec: PropertySpec
    step_index: int
    at_ms: int
    detail: str
    evidence: Mapping[str, object] = field(default_factory=lambda: _NO_EVIDENCE)
    known_as: str | None = None

    def __str__(self) -> str:
        known = f" [known: {self.known_as}]" if self.known_as else ""
        return (
            f"{self.spec.id} at step {self.step_index} ({self.at_ms} ms){known}: {self.detail}\n"
            f"  property: {self.spec.sentence} ({', '.join(self.spec.clauses)})"
        )


TRIGGERS: Mapping[str, str] = MappingProxyType(
    {
        "on_append": "a shard wrote records",
        "on_change": "a shard wrote records of the group",
        "on_heartbeat": "a heartbeat was answered, and it was not a steady one",
        "on_refused": "a heartbeat was answered with an error",
        "on_timers": "a shard armed or cancelled timers, beyond the session of the sender",
        "on_timer_fired": "a shard's timer fired",
        "on_request": "a shard handled any request",
        "on_read": "a shard answered a describe or a list",
        "on_assignment_request": "a shard answered a request of a member that computes a target",
        "on_commit": "a shard stored offsets of a commit",
        "on_commit_refused": "a shard refused offsets of a commit",
        "on_loaded": "a shard became active",
        "on_unloaded": "a shard gave up",
        "on_truncated": "a log lost its tail",
        "on_committed": "a high watermark advanced",
        "on_released": "a broker let an answer go",
        "on_metadata": "a shard took a new metadata image",
        "on_effects": "a client's event had effects",
        "on_moved": "a client's state, epoch, assignment or fetchable set changed",
        "on_sent": "a client sent a heartbeat that is not its last one repeated in time",
        "on_sent_owned": "a client sent a heartbeat with an owned list",
        "on_joining": "a client sent a heartbeat at epoch 0",
        "on_leaving": "a client sent a heartbeat at epoch -1 or -2",
        "on_event": "a client takes an event that is neither a tick, a poll nor an answer",
        "on_handled": "a client is done with such an event, or with an answer out of the ordinary",
        "on_client_started": "a client process started",
        "on_client_gone": "a client process ended",
        "on_written": "a coordinator learned what became of a write",
        "on_escaped": "an exception escaped from a handler of a coordinator",
        "on_classic": "a shard did something to a classic group",
        "on_classic_request": "a shard handled a classic request",
        "on_classic_answer": "an answer to a classic request was let go",
        "on_classic_commit": "a shard stored offsets of a commit for a classic group",
        "on_classic_client": "a client of the classic protocol took an event",
        "on_ownership": "ownership moved, at the coordinator or at a client",
    }
)
"""Method that an invariant may define -> when the checker calls it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interest:
    """Of what a client takes and wants, the types that matter to an invariant; None: all of them.

    ``events``: it is asked ``on_event`` about these only; ``effects``: and ``on_effects`` only
    where one of these is among them.
    """

    events: tuple[type, ...] | None = None
    effects: tuple[type, ...] | None = None


class Property:
    """Checks one property.

    A subclass defines ``spec`` and some of the methods of ``TRIGGERS``, each of which returns a
    ``Finding`` or None. A property about a state (not about a change) also defines ``full``, which
    looks at everything, knows nothing of the shadow model, and must agree with the triggers. With
    ``needs_data_plane`` it watches only worlds that have one; with ``judges_mixed`` it holds for a
    consumer group with classic members too, and when a group is converted.
    """

    spec: ClassVar[PropertySpec]
    interest: ClassVar[Interest] = Interest()
    needs_data_plane: ClassVar[bool] = False
    judges_mixed: ClassVar[bool] = False

    def __init__(self, model: ShadowModel) -> None:
        self.model = model

    def full(self, view: WorldView) -> Finding | None:
        """Look at the whole world as it stands; None is all right."""
        return None

    @classmethod
    def applies_to(cls, semantics: Semantics) -> bool:
        """Whether these semantics have what the property is about; else nobody is asked."""
        return True

    @classmethod
    def triggers(cls) -> tuple[str, ...]:
        """The triggers that this class listens to."""
        return tuple(name for name in TRIGGERS if hasattr(cls, name))

    @classmethod
    def judges_states(cls) -> bool:
        """Whether the property can be checked on a still picture of the world."""
        return cls.full is not Property.full


def first_among_living(
    view: WorldView, judge: Callable[[str, GroupMember], Finding | None]
) -> Finding | None:
    """What is wrong with the first living client with which anything is: by name and member."""
    for name, client in view.clients().items():
        if client.is_alive:
            finding = judge(name, client.member)
            if finding is not None:
                return finding
    return None
