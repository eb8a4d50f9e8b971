"""What a Java client of the classic protocol makes of answers: what it forgets, and when it joins
again.

Source: classic §4.3.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.classic_entry import ClassicClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    CallReturned,
    ClassicHeartbeatAnswered,
    ClientState,
    CloseConnection,
    CommitAnswered,
    Disconnected,
    OwnStateChanged,
    RequestExpired,
    SendClassicHeartbeat,
    SendCommit,
    SendLeaveGroup,
)
from rebalance_sim.protocol.clients.java.classic.classic_member_states import ClassicState
from rebalance_sim.protocol.clients.kinds import CLASSIC
from rebalance_sim.protocol.wire.errors import ErrorCode

ORDER = 187

_Signature = tuple[str, int]

_NEVER_MS = -1 << 40
_STRANGER = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})


class ForgetsWhatIsOver(Property):
    """classic §4.3, columns "Heartbeat" and "OffsetCommit". A commit with several errors is not
    judged, nor is what a client does that leaves anyway."""

    id = "classic.client.error_reaction_java"
    sentence = (
        "A Java client of the classic protocol forgets its generation by the answer to a heartbeat "
        "or a commit if, and only if, that refuses its present one as unknown or over, and its id "
        "with it if that is unknown or another process's; or if that refuses a commit of a former "
        "one, which ends no join that is under way."
    )
    clauses = ("classic §4.3",)
    violated_by = ("librdkafka-4908", "franz-go-1326", "test:goes-on-unknown", "test:keeps-its-id")
    client_kinds = (CLASSIC,)
    judges_mixed = True
    interest = Interest(
        events=(CommitAnswered, ClassicHeartbeatAnswered, Disconnected, RequestExpired),
        effects=(SendCommit, SendClassicHeartbeat, CloseConnection),
    )

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._commits: dict[str, dict[int, _Signature]] = self.of_process({})
        """Client -> correlation id of a commit in flight -> member id and generation in it."""
        self._beats: dict[str, tuple[_Signature, int]] = self.of_process({})
        """Client -> how its last heartbeat is signed, and the first one of those."""

    def on_effects(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """What leaves is signed; what was in flight may be lost."""
        name = entry.name
        for effect in step.effects:
            if type(effect) is SendCommit:
                request = effect.request
                self._commits.setdefault(name, {})[effect.correlation_id] = (
                    request.member_id,
                    max(request.generation_id_or_member_epoch, 0),
                )
            elif type(effect) is SendClassicHeartbeat:
                signed = effect.request.member_id, effect.request.generation_id
                known = self._beats.get(name)
                if known is None or known[0] != signed:
                    self._beats[name] = signed, effect.correlation_id
            elif type(effect) is CloseConnection:
                self._commits.pop(name, None)
        return None

    def on_event(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """A heartbeat or a commit was answered, or never will be."""
        event, kind, name = step.event, type(step.event), entry.name
        present = entry.member_id, entry.member_epoch
        if kind is CommitAnswered:
            signed = self._commits.get(name, {}).pop(event.correlation_id, None)
            codes = {code for code in event.response.errors.values() if code}
            if signed is None or len(codes) != 1:
                return None
            return self._judge(step, entry, codes.pop(), is_present=signed == present)
        if kind is ClassicHeartbeatAnswered:
            known = self._beats.get(name)
            if known is None:
                return None
            is_present = known[0] == present and event.correlation_id >= known[1]
            return self._judge(step, entry, event.response.error_code, is_present=is_present)
        commits = self._commits.get(name)
        if commits:
            for correlation_id in event.correlation_ids:
                commits.pop(correlation_id, None)
        return None

    def _judge(
        self, step: Step, entry: ClassicClientEntry, code: ErrorCode, *, is_present: bool
    ) -> Finding | None:
        member = entry.member
        is_commit = type(step.event) is CommitAnswered
        if _leaves(step, entry):
            return None
        if entry.member_epoch <= 0:
            if not is_commit or is_present or not _was_preparing(step):
                return None
            return Finding(
                f"{entry.name} gives its JoinGroup up: a commit of a former generation was "
                f"answered {code.name}",
                {"client": entry.name},
            )
        is_end = code in _STRANGER or (code is ErrorCode.FENCED_INSTANCE_ID and not is_commit)
        has_forgotten = member.member_epoch == 0
        is_due = is_present or (is_commit and not _was_preparing(step))
        wrong = ""
        if has_forgotten and not (is_end and is_due):
            wrong = "forgets that"
        elif not has_forgotten and is_end and is_present and member.state is not ClientState.FATAL:
            wrong = "goes on with that"
        elif has_forgotten:
            kept = entry.member_id if code is ErrorCode.ILLEGAL_GENERATION else ""
            if member.member_id != kept:
                wrong = f"goes on as {member.member_id or 'nobody'}"
        if not wrong:
            return None
        what = "a commit" if is_commit else "a heartbeat"
        whose = "present" if is_present else "former"
        return Finding(
            f"{entry.name}, at generation {entry.member_epoch}, is answered {code.name} to {what} "
            f"of its {whose} generation, and {wrong}",
            {"client": entry.name},
        )


def _leaves(step: Step, entry: ClassicClientEntry) -> bool:
    return (
        entry.member.blocked_in is not None
        or entry.member.poll_expired
        or any(type(effect) in (SendLeaveGroup, CallReturned) for effect in step.effects)
    )


def _was_preparing(step: Step) -> bool:
    return any(
        type(effect) is OwnStateChanged
        and effect.from_state == ClassicState.PREPARING_REBALANCE.value
        for effect in step.effects
    )
