"""What a refusal is judged by: the request, who sent it, and the group before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from rebalance_sim.invariants.model.classic_model import ClassicModel
from rebalance_sim.invariants.model.ledger import GroupLedger
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import Topic, TopicPartition

EMPTY = ClassicGroupState.EMPTY


class Asked:
    """A request, or an entry of one, and the group as it was found: a consumer group if the ledger
    has one, else a classic one; one that is not there is Empty. ``epoch`` is a member epoch or a
    generation; ``holder`` has the instance id."""

    def __init__(
        self, model: ModelView, step: Step, ledger: GroupLedger, classic: ClassicModel | None
    ) -> None:
        self.model, self.step, self.ledger = model, step, ledger
        self.classic = classic or ClassicModel()
        self.join_answer: tuple[int, str | None] = (-1, None)
        """Generation and assignor in the answer to its last JoinGroup, where that matters."""
        self.config = step.shard.configs.broker
        self.is_consumer = ledger.has_group
        is_disabled = self.config.group_consumer_migration_policy == "disabled"
        self.is_shut_out = is_disabled and ledger.has_group
        now = self.classic.snapshot
        self.state = EMPTY if now is None else now.state
        self.generation = None if now is None else now.generation_id
        self.members = (ledger if ledger.has_group else self.classic).members.keys()
        self.partition: TopicPartition | None = None
        self.take(step.request)

    def take(self, request: Any) -> None:
        """Who asks, and at which epoch."""
        self.request, self.member_id = request, getattr(request, "member_id", None) or ""
        names = ("member_epoch", "generation_id", "generation_id_or_member_epoch")
        epochs: list[int] = [getattr(request, n) for n in names if hasattr(request, n)]
        self.epoch, self.has_epoch = next(iter(epochs), 0), bool(epochs)
        own = getattr(request, "group_instance_id", getattr(request, "instance_id", None))
        holders = self.ledger.instances
        if not self.is_consumer and own is not None:
            notes = self.classic.members.items()
            holders = {note.group_instance_id or "": member_id for member_id, note in notes}
        self.instance_id, self.holder = own, None if own is None else holders.get(own)
        is_unheld = own is not None and self.holder is None
        self.is_unknown = self.member_id not in self.members or is_unheld
        self.is_held_by_other = self.holder not in (None, self.member_id)
        self.entry = self.ledger.members.get(self.member_id)

    def epoch_of(self, member_id: str | None) -> int | None:
        """The epoch or generation that a member is at."""
        entry = self.ledger.members.get(member_id or "")
        return entry.epoch if entry else None if self.is_consumer else self.generation

    @property
    def topic(self) -> Topic | None:
        """That of the partition, as this broker knows it."""
        partition = self.partition
        name = partition and self.model.wire_name_of(self.step, partition.topic_id)
        return self.step.shard.coordinator.image.by_name.get(name or "")


Causes = Mapping[ErrorCode, tuple[str, Callable[[Asked], object]]]


class Refusals(Property):
    """``causes``: what each code says, and whether that is so."""

    causes: ClassVar[Causes]
    judges_mixed = True

    def judge(self, code: ErrorCode, asked: Asked) -> Finding | None:
        """Is the code right?"""
        says, holds = self.causes.get(code, ("it is an answer to that", lambda _: False))
        if holds(asked):
            return None
        what = type(asked.request).__name__.removesuffix("Request")
        at = f" for {self.model.name_of(asked.partition)}" if asked.partition else ""
        return Finding(
            f"{what} of {self.model.who(asked.member_id) or 'no one'} at epoch {asked.epoch}{at} "
            f"was answered {code.name}, and it is not so that {says}",
            member=asked.member_id,
        )


def _is_of_other_generation(a: Asked) -> bool:
    """Of a member of the classic protocol, or where there is no group."""
    speaks_consumer = a.is_consumer and (a.entry is None or not a.entry.is_classic)
    return not speaks_consumer and a.has_epoch and a.epoch != a.epoch_of(a.member_id)


UNKNOWN = "no member has that id, or that instance id"
FENCED = "another member has that instance id"
OTHER_GENERATION = "its generation is another one", _is_of_other_generation
