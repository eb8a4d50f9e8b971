"""A classic member in a wide recording. Its joins and syncs may be parked while others continue."""

from __future__ import annotations

import string
from typing import Any

from rebalance_sim.conformance.record.wide_context import Answer, WideContext

PROTOCOLS = (
    ["range"],
    ["cooperative-sticky"],
    ["range", "cooperative-sticky"],
    ["roundrobin", "range"],
)
_REMOVED = ("unknown_member_id", "fenced_instance_id")
_ANSWER_S = 0.08
"""How long an answer may take until it counts as parked."""


class ClassicMember:
    """One process on a connection of its own. Each member id that it gets has a name of its own."""

    def __init__(self, context: WideContext, index: int, protocols: list[str]) -> None:
        rng = context.rng
        self._context = context
        self._rng = rng
        self._conn = f"K{index + 1}"
        self._names = 0
        self._name = self._conn
        self._instance = f"ki{index}" if context.chance(0.3) else None
        self._protocols = protocols if context.chance(0.85) else rng.choice(PROTOCOLS)
        self._session_ms = rng.choice([1500, 3000, 6000, 10000])
        self._rebalance_ms = rng.choice([1500, 2500, 4000])
        self._topics: list[str] = []
        self._parked: tuple[str, str] | None = None  # ticket and operation
        self._is_bound = False
        self._protocol = self._protocols[0]
        self._leads = False
        self._members: list[str] = []
        self._forget()

    def _forget(self) -> None:
        self._id = ""
        self._lose_generation()

    def _lose_generation(self) -> None:
        self._generation = -1
        self._owned: dict[str, list[int]] = {}

    @property
    def is_waiting(self) -> bool:
        """A request is parked, and has no answer yet."""
        return self._parked is not None and not self._has_answer()

    def take_answer(self) -> None:
        """Take the answer to a parked request, if it is there."""
        if self._parked is not None and self._has_answer():
            self._await()

    def act(self) -> None:
        """One thing that this member does, and what goes with it."""
        if self._parked is not None:
            if self._has_answer():
                self._await()
            elif self._context.chance(0.1):
                self._be_removed()
        elif not self._id or self._generation < 0:
            self._context.act({self._join: 92, self._stray: 8})
        else:
            self._context.act(
                {
                    self._heartbeat: 60,
                    self._join: 12,
                    lambda: self._sync(self._rng.choice([0, 0, 1, -1])): 6,
                    self._ask_about_offsets: 10,
                    self._leave: 5,
                    self._describe: 7,
                }
            )

    # -- what it can do ----------------------------------------------------------------------

    def _join(self) -> None:
        context, rng = self._context, self._rng
        self._is_bound = not self._id or self._instance is not None
        if self._is_bound:
            self._names += 1
            letters = string.ascii_letters
            self._name = f"{self._conn}{letters[self._names % len(letters)]}"
        if not self._topics or context.chance(0.15):
            self._topics = context.some_topics()
        request: dict[str, Any] = {
            "member_id": self._id,
            "topics": self._topics,
            "protocols": self._protocols,
            "rebalance_timeout_ms": self._rebalance_ms,
            "session_timeout_ms": self._session_ms,
            "owned": {name: parts for name, parts in self._owned.items() if parts},
            "generation": self._generation,
            **self._instance_id(),
        }
        if context.chance(0.03):
            request["session_timeout_ms"] = rng.choice([100, 9_000_000])
        if context.chance(0.02):
            request["protocols"] = ["custom"]
        if context.chance(0.02):
            request["member_id"] = "zz"
        if context.chance(0.05):
            self._age(request)
        self._send("join_group", request, **({"bind": self._name} if self._is_bound else {}))

    def _age(self, request: dict[str, Any]) -> None:
        """Make the subscription one of an older client, which has fewer fields."""
        version = self._rng.choice([0, 1, 2])
        request["subscription_version"] = version
        if version < 2:
            request["generation"] = -1
        if version < 1:
            request["owned"] = {}

    def _sync(self, generation_error: int = 0) -> None:
        if self._context.chance(0.06):
            return  # it forgets to
        request: dict[str, Any] = {
            "member_id": self._id,
            "generation": self._generation + generation_error,
            "protocol": self._protocol or self._protocols[0],
            **self._instance_id(),
        }
        given = self._assign() if self._leads else {}
        if given:
            request["assignments"] = given
        if self._context.chance(0.03):
            request["protocol"] = "other"
        self._send("sync_group", request)

    def _assign(self) -> dict[str, dict[str, list[int]]]:
        """Almost all partitions, to members by chance."""
        members = sorted(name for name in self._members if name != "<generated>")
        given: dict[str, dict[str, list[int]]] = {name: {} for name in members}
        for topic in sorted(self._context.topics):
            for number in range(self._context.topics[topic]):
                if members and self._context.chance(0.95):
                    given[self._rng.choice(members)].setdefault(topic, []).append(number)
        return given

    def _heartbeat(self) -> None:
        context, rng = self._context, self._rng
        error = rng.choice([1, -1]) if context.chance(0.05) else 0
        request: dict[str, Any] = {
            "member_id": self._id,
            "generation": self._generation + error,
        }
        if self._instance and context.chance(0.95):
            request["instance_id"] = self._instance
        elif context.chance(0.03):
            request["instance_id"] = "ki-other"
        code = context.ask("classic_heartbeat", conn=self._conn, request=request)["error_code"]
        if code == "rebalance_in_progress" and context.chance(0.85):
            if self._protocol == "range":
                self._owned = {}
            self._join()
        elif code in _REMOVED:
            self._forget()
        elif code == "illegal_generation" and not error:
            self._lose_generation()

    def _stray(self) -> None:
        request = {"member_id": self._id or "zz", "generation": 1}
        self._context.ask("classic_heartbeat", conn=self._conn, request=request)

    def _leave(self) -> None:
        request = {"member_id": self._id, **self._instance_id()}
        if self._instance and self._context.chance(0.4):
            request["member_id"] = ""
        elif not self._instance and self._context.chance(0.05):
            request["instance_id"] = "ki-other"
        answer = self._context.ask("leave_group", conn=self._conn, request=request)
        if answer["error_code"] == "none" and answer["members"] == ["none"]:
            self._forget()

    def _be_removed(self) -> None:
        """An administrator removes it while its request is parked."""
        if self._id or self._instance:
            member_id = self._id if self._context.chance(0.6) else ""
            request = {"member_id": member_id, **self._instance_id()}
            self._context.ask("leave_group", conn="admin2", request=request)

    def _ask_about_offsets(self) -> None:
        self._context.ask_about_offsets(self._id, self._generation, self._instance)

    def _describe(self) -> None:
        self._context.ask("describe_classic")

    def _instance_id(self) -> dict[str, str]:
        return {"instance_id": self._instance} if self._instance else {}

    # -- asking, and what it learns ----------------------------------------------------------

    def _send(self, op: str, request: dict[str, Any], **fields: str) -> None:
        ticket = self._context.ticket(op)
        self._context.ask(op, conn=self._conn, **{"async": ticket}, request=request, **fields)
        self._parked = (ticket, op)
        if self._has_answer(_ANSWER_S):
            self._await()

    def _has_answer(self, wait_s: float = 0.0) -> bool:
        assert self._parked is not None
        return self._context.session.has_answer(self._parked[0], wait_s)

    def _await(self) -> None:
        assert self._parked is not None
        ticket, op = self._parked
        answer = self._context.ask("await", id=ticket)
        self._parked = None
        code = answer["error_code"]
        if code in _REMOVED:
            self._forget()
        elif op == "join_group":
            self._learn_from_join(code, answer)
        elif code == "none":
            self._owned = answer["assignment"]
        elif code == "illegal_generation":
            self._lose_generation()

    def _learn_from_join(self, code: str, answer: Answer) -> None:
        if code not in ("none", "member_id_required"):
            return
        if self._is_bound:
            self._id = self._name
        if code == "none":
            self._generation, self._protocol = answer["generation"], answer["protocol"]
            self._leads, self._members = answer["leader"] == self._id, answer["members"]
            self._sync()
