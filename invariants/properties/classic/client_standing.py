"""A classic client is what it has been told to be: at a generation, or out for good.

Source: classic §4.1, §4.2, §4.3; client §10.1.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.classic_entry import ClassicClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.properties.client.pacing import is_away_too_long
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    ClientState,
    CloseConnection,
    CommitAnswered,
    Disconnected,
    JoinGroupAnswered,
    RequestExpired,
    SendClassicHeartbeat,
    SendCommit,
    StateChanged,
    SyncGroupAnswered,
    Tick,
)
from rebalance_sim.protocol.clients.common.classic_config import ClassicConsumerConfig
from rebalance_sim.protocol.clients.kinds import CLASSIC, CLASSIC_KINDS, LIBRDKAFKA_CLASSIC
from rebalance_sim.protocol.wire.errors import ErrorCode

ORDER = 177

_OF_A_GENERATION = frozenset({ClientState.STABLE, ClientState.RECONCILING})

_HIDES_ABSENCE = _OF_A_GENERATION | {ClientState.JOINING, ClientState.FENCED}
_OF_NONE = frozenset({ClientState.JOINING, ClientState.FENCED, ClientState.STALE})


class AtAGeneration(Property):
    """classic §4.1. What the client shows is what all other properties know it by."""

    id = "classic.client.at_a_generation"
    sentence = (
        "A classic client is stable or reconciling only at a generation; one of librdkafka neither "
        "joins, nor is fenced, nor away for too long, while it has one; and one that was away for "
        "too long shows that until it has left or joins."
    )
    clauses = ("classic §4.1", "classic §4.6")
    violated_by = ("test:stable-at-no-generation", "test:java-stable-at-no-generation")
    client_kinds = CLASSIC_KINDS
    judges_mixed = True
    interest = Interest(effects=(StateChanged,))

    def on_effects(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """Compare the state with the number."""
        member = entry.member
        if member.kind == CLASSIC:
            has_generation = bool(member.member_id)  # It signs nothing while it joins anew.
        else:
            has_generation = member.commit_identity is not None  # In a mixed group 0 is one.
        if member.state in _OF_A_GENERATION:
            is_wrong = not has_generation
        elif member.kind == CLASSIC:
            return None
        else:
            is_wrong = has_generation and member.state in _OF_NONE
        if member.poll_expired and member.state in _HIDES_ABSENCE:
            return Finding(
                f"{entry.name} is {member.state.value}, and was away from poll for too long",
                {"client": entry.name},
            )
        if not is_wrong:
            return None
        return Finding(
            f"{entry.name} is {member.state.value} and has "
            f"{'a' if has_generation else 'no'} generation",
            {"client": entry.name},
        )


class SessionIsOver(Property):
    """classic §4.6. Nothing but time ends a session: what is refused, lost or unsubscribed is no
    event of it. An answer to what was sent at the generation before says nothing about this one.
    """

    id = "classic.client.session_librdkafka"
    sentence = (
        "A classic client of librdkafka gives up its member id by itself only when it has read no "
        "good Heartbeat, and has not joined, for session.timeout.ms, or its application is away "
        "from poll, unsubscribes or closes."
    )
    clauses = ("classic §4.6",)
    violated_by = ("test:librdkafka-counts-no-heartbeat",)
    client_kinds = (LIBRDKAFKA_CLASSIC,)
    judges_mixed = True
    interest = Interest(
        events=(JoinGroupAnswered, SyncGroupAnswered), effects=(SendClassicHeartbeat,)
    )
    outlives_clock_steps = False

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._joined_ms: dict[str, int] = self.of_process({})
        """Client -> when its last JoinGroup or SyncGroup was granted."""
        self._first_beat: dict[str, tuple[int, int]] = self.of_process({})
        """Client -> the generation of its last Heartbeat, and the id of the first of that one."""

    def on_event(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """A grant begins the session anew."""
        if not step.event.response.error_code:
            self._joined_ms[entry.name] = step.at_ms
        return None

    def on_effects(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """A Heartbeat leaves."""
        name, generation_id = entry.name, entry.member.member_epoch
        if name not in self._first_beat or self._first_beat[name][0] != generation_id:
            sent = [e.correlation_id for e in step.effects if type(e) is SendClassicHeartbeat]
            self._first_beat[name] = generation_id, min(sent)
        return None

    def on_classic_client(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """Has the client given up its id, and nobody has told it to?"""
        member = entry.member
        if (
            type(step.event) is not Tick
            or member.kind != LIBRDKAFKA_CLASSIC
            or not entry.member_id
            or member.member_id
            or entry.name not in self._joined_ms
            or is_away_too_long(member, step.at_ms)
            or member.is_closed
            or not member.has_subscription
        ):
            return None
        alive_ms = self._joined_ms[entry.name]
        generation_id, first_id = self._first_beat.get(entry.name, (0, 0))
        if generation_id == entry.member_epoch and entry.heard_id >= first_id:
            alive_ms = max(alive_ms, entry.heard_ms)
        silent_ms = step.at_ms - alive_ms
        assert isinstance(member.config, ClassicConsumerConfig)
        if silent_ms >= member.config.session_timeout_ms:
            return None
        return Finding(
            f"{entry.name} gives up its member id {silent_ms} ms after its session began anew; "
            f"session.timeout.ms is {member.config.session_timeout_ms}",
            {"client": entry.name},
        )


_FENCED = {ErrorCode.FENCED_INSTANCE_ID}


class FencedForGood(Property):
    """classic §4.3: another process has the instance id. What is signed with a generation that is
    over says nothing about the client of now. Of a commit that fails by several codes a client goes
    by the first: a topic that is not known is refused before anybody looks at the member."""

    id = "classic.client.fenced_for_good"
    sentence = (
        "A classic client whose JoinGroup, or whose commit at its present generation, is answered "
        "FENCED_INSTANCE_ID has failed for good, unless it is leaving; the answer to a join is "
        "read when the application polls."
    )
    clauses = ("classic §4.3", "client §10.1")
    violated_by = ("test:goes-on-when-fenced",)
    client_kinds = CLASSIC_KINDS
    judges_mixed = True
    interest = Interest(
        events=(JoinGroupAnswered, CommitAnswered, Disconnected, RequestExpired),
        effects=(SendCommit, CloseConnection),
    )

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._signed: dict[str, dict[int, tuple[str, int]]] = self.of_process({})
        """Client -> correlation id -> member id and generation of a commit in flight."""

    def on_event(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """An answer came, or will never come."""
        event, kind, member = step.event, type(step.event), entry.member
        signed = self._signed.get(entry.name, {})
        if kind is JoinGroupAnswered:
            is_fenced = event.response.error_code is ErrorCode.FENCED_INSTANCE_ID
        elif kind is CommitAnswered:
            is_fenced = (
                signed.pop(event.correlation_id, None)
                == (
                    entry.member_id,
                    entry.member_epoch,
                )
                and set(event.response.errors.values()) - {ErrorCode.NONE} == _FENCED
            )
        else:
            for correlation_id in event.correlation_ids:
                signed.pop(correlation_id, None)
            return None
        if (
            not is_fenced
            or member.state is ClientState.FATAL
            or not entry.state.is_in_group
            or member.blocked_in is not None
            or (kind is JoinGroupAnswered and not member.is_polling)
        ):
            return None
        return Finding(
            f"{entry.name} was answered FENCED_INSTANCE_ID, and is {member.state.value}",
            {"client": entry.name},
        )

    def on_effects(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """Commits leave, or are lost."""
        for effect in step.effects:
            if type(effect) is CloseConnection:
                self._signed.pop(entry.name, None)
            elif type(effect) is SendCommit and entry.member.config.group_instance_id:
                request = effect.request
                self._signed.setdefault(entry.name, {})[effect.correlation_id] = (
                    request.member_id,
                    request.generation_id_or_member_epoch,
                )
        return None
