"""Timers of classic groups run for as long as the members have said.

What members have said stands in their JoinGroups, and in the record of the group.
Sources: classic §1.5, §2.3, §2.5, §2.9.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from rebalance_sim.invariants.model.classic_model import ClassicLook, ClassicModel
from rebalance_sim.invariants.model.ledger import GroupLedger
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import ShardView, Step
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.runtime.outcome import ScheduleTimer
from rebalance_sim.protocol.wire.classic_messages import JoinGroupRequest
from rebalance_sim.protocol.wire.classic_records import ClassicMemberValue
from rebalance_sim.protocol.wire.errors import ErrorCode

ORDER = 165

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""classic §2.9."""


_KEPT_GROUPS = 8
"""How often a group may be converted to and fro in a batch that is lost, and be known again."""

_TAKEN = (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED)
"""What a JoinGroup is answered that changes the group; one that is refused says nothing."""


class _Said(NamedTuple):
    """Timeouts that a member has named, the last and the one before: a JoinGroup that changes
    nothing else is answered without being entered (classic §2.4)."""

    sessions_ms: frozenset[int]
    rebalances_ms: frozenset[int]


class ClassicDeadlines(Property):
    """classic §2.9, the column of durations."""

    id = "classic.deadlines"
    sentence = (
        "In a classic group a session lasts as long as its member has said, that of a newcomer "
        "five minutes, and the first one of a static heir as that of its predecessor; join and "
        "sync phase last as long as the longest rebalance timeout of a member, a first join phase "
        "the initial delay."
    )
    clauses = ("classic §1.5", "classic §2.3", "classic §2.5", "classic §2.9")
    violated_by = (
        "KAFKA-14009",
        "test:classic-session-too-long",
        "test:classic-sync-phase-too-short",
    )
    interest = Interest(requests=(JoinGroupRequest,))

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._said: dict[tuple[str, str], _Said] = {}
        """Shard and member id -> what it has said there."""
        self._former: dict[str, list[tuple[ClassicGroup, dict[tuple[str, str], _Said]]]] = {}
        """Shard -> groups that were converted there, the last ones, with what was said to each."""

    def on_loaded(self, step: Step, ledger: GroupLedger) -> Finding | None:
        """A new coordinator knows what the record of the group says."""
        name = step.shard.name
        self._forget(name)
        self._former.pop(name, None)
        return None

    def before_classic(
        self, step: Step, ledger: GroupLedger, classic_model: ClassicModel
    ) -> Finding | None:
        """Remember what the predecessor of a static heir has said: its row is about to go."""
        request = step.request
        if (
            isinstance(request, JoinGroupRequest)
            and request.group_instance_id is not None
            and ledger.classic is not None
        ):
            name = step.shard.name
            for row in ledger.classic.members:
                if row.group_instance_id == request.group_instance_id:
                    self._said.setdefault((name, row.member_id), _said_in(row))
        return None

    def on_classic(self, step: Step, look: ClassicLook) -> Finding | None:
        """Look at every timer that was armed."""
        request, response = step.request, step.response
        if look.former is not None:
            self._keep(look.shard.name, look.former)
        if look.group is None:
            return None
        if look.undone is not None:
            self._restore(look.shard.name, look.group)
        elif not look.is_same_group:
            # What members have said to a group of before stands in the record of the new one.
            self._forget(look.shard.name)
        of_predecessor: frozenset[int] = frozenset()
        if isinstance(request, JoinGroupRequest) and (
            response is None or response.error_code in _TAKEN
        ):
            of_predecessor = self._note(look, request)
        for command in step.timers:
            if type(command) is ScheduleTimer and command.key.kind.group_type == "classic":
                finding = self._judge(look, command, of_predecessor)
                if finding is not None:
                    return finding
        return None

    def _forget(self, shard_name: str) -> None:
        self._said = {key: said for key, said in self._said.items() if key[0] != shard_name}

    def _keep(self, shard_name: str, group: ClassicGroup) -> None:
        said = {key: said for key, said in self._said.items() if key[0] == shard_name}
        kept = self._former.setdefault(shard_name, [])
        kept.append((group, said))
        del kept[:-_KEPT_GROUPS]

    def _restore(self, shard_name: str, group: ClassicGroup) -> None:
        """The group is there again, with what its members had said when it was converted."""
        for former, said in self._former.pop(shard_name, ()):
            if former is group:
                self._forget(shard_name)
                self._said.update(said)

    def _note(self, look: ClassicLook, request: JoinGroupRequest) -> frozenset[int]:
        """Returns the session timeouts of whom the sender replaces: its first session is one of
        these (classic §2.5), all that it has otherwise is its own."""
        ids = [request.member_id] if request.member_id else self._made(look, request)
        former = [request.member_id] if request.member_id else sorted(look.gone)
        said = [s for s in (self._said_by(look, member_id) for member_id in former) if s]
        before_ms: frozenset[int] = frozenset().union(*(s.sessions_ms for s in said))
        now = _Said(
            frozenset({request.session_timeout_ms}),
            frozenset({request.effective_rebalance_timeout_ms}),
        )
        if request.member_id:
            now = _Said(
                now.sessions_ms | before_ms,
                now.rebalances_ms.union(*(s.rebalances_ms for s in said)),
            )
        for member_id in ids:
            self._said[look.shard.name, member_id] = now
        return frozenset() if request.member_id else before_ms

    def _made(self, look: ClassicLook, request: JoinGroupRequest) -> Iterable[str]:
        """The id that came into being with this JoinGroup, which had none."""
        instance_id, members = request.group_instance_id, look.classic_model.members
        if instance_id is not None:
            return [
                m
                for m, note in members.items()
                if note.group_instance_id == instance_id and (look.shard.name, m) not in self._said
            ]
        present = (*members, *sorted(look.classic_model.pending))
        known = self._of_record(look.shard)
        return [m for m in present if (look.shard.name, m) not in self._said and m not in known]

    def _of_record(self, shard: ShardView) -> Mapping[str, _Said]:
        value = self.model.ledger_of(shard).classic
        if value is None:
            return {}
        return {row.member_id: _said_in(row) for row in value.members}

    def _said_by(self, look: ClassicLook, member_id: str) -> _Said | None:
        return self._said.get((look.shard.name, member_id)) or self._of_record(look.shard).get(
            member_id
        )

    def _judge(
        self, look: ClassicLook, command: ScheduleTimer, of_predecessor: frozenset[int]
    ) -> Finding | None:
        runs_ms = command.at_ms - look.step.at_ms
        if command.key.kind == "classic-session":
            said = self._said_by(look, command.key.member_id)
            if said is None or runs_ms in said.sessions_ms or runs_ms in of_predecessor:
                return None
            if runs_ms == NEW_MEMBER_JOIN_TIMEOUT_MS:
                return None
            return Finding(
                f"the session of {command.key.member_id} runs for {runs_ms} ms, and it has asked "
                f"for {_or(said.sessions_ms)} ms",
                {"member": command.key.member_id},
            )
        known = [self._said_by(look, member_id) for member_id in look.classic_model.members]
        if None in known:
            return None
        allowed = _longest([said.rebalances_ms for said in known if said is not None])
        if command.key.kind == "classic-join" and _may_be_initial(look):
            delay_ms = look.shard.configs.broker.group_initial_rebalance_delay_ms
            if 0 < runs_ms <= delay_ms:
                return None
        if runs_ms in allowed:
            return None
        return Finding(
            f"the {command.key.kind} timer runs for {runs_ms} ms, and the longest rebalance "
            f"timeout is {_or(allowed)} ms"
        )


def _said_in(row: ClassicMemberValue) -> _Said:
    session_ms, rebalance_ms = row.session_timeout_ms, row.rebalance_timeout_ms
    return _Said(
        frozenset({session_ms}), frozenset({session_ms if rebalance_ms == -1 else rebalance_ms})
    )


def _may_be_initial(look: ClassicLook) -> bool:
    """Whether the join phase is one of a group that was empty before."""
    return (
        look.before is None
        or look.before.generation_id == 0
        or look.group is None
        or (look.group.initial_tick is not None)
    )


def _longest(each_ms: Iterable[frozenset[int]]) -> frozenset[int]:
    """What the longest may be, of several that may each be one of some; 0 of none at all."""
    options = list(each_ms)
    least = max((min(some) for some in options), default=0)
    return frozenset({least, *(ms for some in options for ms in some if ms >= least)})


def _or(values: Iterable[int]) -> str:
    return " or ".join(str(value) for value in sorted(values))
