"""Faults by rule: which request, and what becomes of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from random import Random
from typing import Any

from rebalance_sim.conformance.codec import Message
from rebalance_sim.gateway.wire.frames import APIS, Request
from rebalance_sim.protocol.runtime.suggestion import did_you_mean
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.scenarios.codec import decode
from rebalance_sim.scenarios.errors import ScenarioError

ANY = "*"
LONGEST_MS = 600_000
_UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT.name
_OF_GROUPS = frozenset(
    {
        "OffsetCommit",
        "OffsetFetch",
        "FindCoordinator",
        "JoinGroup",
        "Heartbeat",
        "LeaveGroup",
        "SyncGroup",
        "DescribeGroups",
        "ListGroups",
        "DeleteGroups",
        "OffsetDelete",
        "ConsumerGroupHeartbeat",
        "ConsumerGroupDescribe",
        "InitProducerId",
        "AddPartitionsToTxn",
        "AddOffsetsToTxn",
        "EndTxn",
        "TxnOffsetCommit",
    }
)
"""APIs that have an answer for an error of the coordinator."""


class Action(StrEnum):
    """What becomes of a request."""

    LOSE_ANSWER = "lose_answer"
    """It is handled, its answer is lost, and nothing is heard on its connection any more; with
    ``delay_ms`` the connection is closed after that time."""
    SILENCE = "silence"
    """The same for a request that is lost."""
    CLOSE = "close"
    """It is not handled; its connection is closed."""
    CLOSE_AFTER = "close_after"
    """It is handled; its connection is closed instead of an answer."""
    DELAY_REQUEST = "delay_request"
    """It is handled ``delay_ms`` later."""
    DELAY_ANSWER = "delay_answer"
    """It is handled, and answered ``delay_ms`` later."""
    DELAY_COMMIT = "delay_commit"
    """What it writes is committed ``delay_ms`` later; its answer waits for that."""
    ERROR = "error"
    """It is not handled, and answered with ``error``."""
    MOVE_COORDINATOR = "move_coordinator"
    """The coordinator gives up its groups before it is handled. After ``load_ms`` it loads them
    from the log again, without the last ``lost_records`` records; all requests until then are
    answered NOT_COORDINATOR."""


_DELAYS = frozenset({Action.DELAY_REQUEST, Action.DELAY_ANSWER, Action.DELAY_COMMIT})
_LOSSES = frozenset({Action.LOSE_ANSWER, Action.SILENCE})
DELAYED = _DELAYS | _LOSSES
"""Actions that have ``delay_ms``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Raises ScenarioError, with the key, for what is no rule."""

    action: Action
    """What becomes of the request."""
    api: str = ANY
    """Kafka's name of the API, such as ``JoinGroup``; ``*``: any."""
    client_id: str = ANY
    """``client.id``; ``*`` stands for any letters."""
    group: str = ANY
    """``group.id``; ``*`` stands for any letters, and alone also for requests without a group."""
    nth: int = 1
    """The first of the matching requests to be concerned, from 1."""
    times: int = 1
    """How many from then on are concerned; 0: all."""
    probability: float = 1.0
    """With which one of them is concerned, as the seed of the gateway draws it; ``times`` counts
    those that are."""
    delay_ms: int = 0
    """Of the three delays; of the two losses it may be left out."""
    error: str = ""
    """Of ``error``: Kafka's name of it, such as ``COORDINATOR_NOT_AVAILABLE``. What brokers answer
    UNSTABLE_OFFSET_COMMIT is an OffsetFetch that asks for stable offsets: others do not match."""
    lost_records: int = 0
    """Of ``move_coordinator``: how many records at the end of the log are lost."""
    load_ms: int = 0
    """Of ``move_coordinator``: how long there is no coordinator."""

    def __post_init__(self) -> None:
        if self.api != ANY and self.api not in APIS:
            raise ScenarioError(f"no API {self.api!r}; {did_you_mean(self.api, APIS)}", place="api")
        for name, least in (("nth", 1), ("times", 0), ("lost_records", 0)):
            if getattr(self, name) < least:
                raise ScenarioError(f"must be >= {least}, got {getattr(self, name)}", place=name)
        if not 0 < self.probability <= 1:
            raise ScenarioError(
                f"must be above 0 and at most 1, got {self.probability:g}", place="probability"
            )
        self._check_times()
        if (self.action is Action.ERROR) != bool(self.error):
            word = "needs" if self.action is Action.ERROR else "has no"
            raise ScenarioError(f"the action {self.action} {word} error", place="error")
        if self.error and self.error not in ErrorCode.__members__:
            known = did_you_mean(self.error, ErrorCode.__members__)
            raise ScenarioError(f"no error {self.error!r}; {known}", place="error")
        if self.error and self.api not in _OF_GROUPS:
            raise ScenarioError(
                f"{self.api} is not answered with errors of a coordinator: give one of "
                + ", ".join(sorted(_OF_GROUPS)),
                place="api",
            )
        if self.lost_records and self.action is not Action.MOVE_COORDINATOR:
            raise ScenarioError(f"the action {self.action} loses no records", place="lost_records")

    def _check_times(self) -> None:
        users = {"delay_ms": DELAYED, "load_ms": {Action.MOVE_COORDINATOR}}
        for name, actions in users.items():
            value = getattr(self, name)
            if not 0 <= value <= LONGEST_MS:
                raise ScenarioError(f"must be from 0 to {LONGEST_MS}, got {value}", place=name)
            if value and self.action not in actions:
                raise ScenarioError(f"the action {self.action} has no {name}", place=name)
        if self.action in _DELAYS and not self.delay_ms:
            raise ScenarioError(f"the action {self.action} needs delay_ms", place="delay_ms")

    def matches(self, request: Request) -> bool:
        """Whether the request is one of those it is about."""
        if self.api not in (ANY, request.api.name):
            return False
        if self.error == _UNSTABLE and not request.message.get("require_stable", False):
            return False
        if self.client_id != ANY and not fnmatchcase(request.client_id, self.client_id):
            return False
        return self.group == ANY or any(
            fnmatchcase(group_id, self.group) for group_id in groups_in(request.message)
        )


MAX_RULES = 1_000


@dataclass(slots=True)
class _InForce:
    """A rule, the matching requests that were seen, and how many of them it is applied to."""

    rule: Rule
    draws: Random
    seen: int = 0
    hits: int = 0

    def concerns_next(self) -> bool:
        """Count one more matching request; whether the rule is applied to it."""
        self.seen += 1
        rule = self.rule
        if self.seen < rule.nth or (rule.times and self.hits == rule.times):
            return False
        is_drawn = rule.probability == 1 or self.draws.random() < rule.probability
        self.hits += is_drawn
        return is_drawn


class Rules:
    """The rules in force. They may be changed from any thread. ``seed`` decides the draws of each
    rule: they are the same for the same matching requests, whatever other rules there are."""

    def __init__(self, rules: Iterable[Rule] = (), *, seed: int = 0) -> None:
        self._seed = seed
        self._rows: list[_InForce] = []
        for rule in rules:
            self.add(rule)

    def add(self, rule: Rule | None = None, **keys: Any) -> Rule:
        """Put a rule into force: a value, or its keys as a file has them.

        Raises ScenarioError for what is no rule, and for more than ``MAX_RULES``.
        """
        if len(self._rows) >= MAX_RULES:
            raise ScenarioError(f"there are {MAX_RULES} rules already: take some away")
        rule = decode(Rule, keys) if rule is None else rule
        draws = Random(f"{self._seed} {len(self._rows)}")
        self._rows = [*self._rows, _InForce(rule, draws)]
        return rule

    def clear(self) -> None:
        """Take all rules away."""
        self._rows = []

    @property
    def hits(self) -> Sequence[int]:
        """How many requests each rule was applied to, in the order of the rules."""
        return [row.hits for row in self._rows]

    @property
    def in_force(self) -> Sequence[tuple[Rule, int]]:
        """The rules, each with how many requests it was applied to."""
        return [(row.rule, row.hits) for row in self._rows]

    def take(self, request: Request) -> Rule | None:
        """Count a request; the first rule that is to be applied to it, if there is one."""
        matching = [row for row in self._rows if row.rule.matches(request)]
        due = [row.rule for row in matching if row.concerns_next()]
        return due[0] if due else None


def groups_in(message: Message) -> Sequence[str]:
    """The groups that a request names."""
    if "group_id" in message:
        return (message["group_id"],)
    if "coordinator_keys" in message:
        return tuple(message["coordinator_keys"])
    for key in ("group_ids", "groups_names", "groups"):
        if key in message:
            rows = message[key]
            return tuple(row if isinstance(row, str) else row["group_id"] for row in rows)
    return (message["key"],) if "key" in message else ()
