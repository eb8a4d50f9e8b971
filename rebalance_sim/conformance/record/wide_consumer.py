"""A member of the consumer protocol in a wide recording: mostly right, often enough wrong."""

from __future__ import annotations

import string
from typing import Any

from rebalance_sim.conformance.record.wide_context import Answer, WideContext
from rebalance_sim.protocol.assignors.server.java_order import java_string_hash

PATTERNS = ("foo.*", "ba..*", "ba[rz].*", "(foo|qux).*", ".*", "f.*", "nothing-.*", "q[a-z]*.*")
_SLOTS = 16
_GONE = ("fenced_member_epoch", "unknown_member_id", "fenced_instance_id", "group_id_not_found")


class MemberIds:
    """New member ids, with a slot of their own in a small Java hash map as long as there is one:
    the order within a slot is that of insertion, which a recording does not tell."""

    def __init__(self, context: WideContext) -> None:
        self._rng = context.rng
        self._used: set[str] = set()
        self._slots: set[int] = set()

    def new(self) -> str:
        while True:
            name = self._random()
            slot = _slot(name)
            is_apart = slot not in self._slots or len(self._slots) == _SLOTS
            if is_apart and name not in self._used and not name.startswith("K"):
                self._used.add(name)
                self._slots.add(slot)
                return name

    def _random(self) -> str:
        letters = string.ascii_letters + string.digits
        rest = (self._rng.choice(letters) for _ in range(self._rng.randrange(7)))
        return self._rng.choice(string.ascii_letters) + "".join(rest)


def _slot(name: str) -> int:
    code = java_string_hash(name) & 0xFFFFFFFF
    return (code ^ (code >> 16)) & (_SLOTS - 1)


class ConsumerMember:
    """One process, which can come back under a new id if it has an instance id."""

    def __init__(self, context: WideContext, ids: MemberIds, index: int) -> None:
        self._context = context
        self._rng = context.rng
        self._ids = ids
        self._name = ids.new()
        self.instance = f"i{index}" if context.chance(0.35) else None
        self._is_away = False
        self._forget()

    def _forget(self) -> None:
        self._is_joined = False
        self._epoch = 0
        self._target: dict[str, list[int]] = {}
        self._owned: dict[str, list[int]] = {}

    def act(self, others: list[ConsumerMember]) -> None:
        """One thing that this member does, and what goes with it."""
        context, rng = self._context, self._rng
        if self.instance and (self._is_away or context.chance(0.02)) and context.chance(0.5):
            self._name = self._ids.new()
            self._join()
        elif not self._is_joined:
            context.act(
                {
                    self._join: 86,
                    lambda: self._stray(rng.choice([1, 2, 3, -1, -2, -3])): 11,
                    self._describe: 3,
                }
            )
        else:
            instances = [None, "i-other", rng.choice(others).instance]
            context.act(
                {
                    self._keep: 24,
                    self._confirm: 31,
                    self._confirm_a_part: 4,
                    self._claim: 2,
                    self._be_wrong: 4.5,
                    lambda: self._keep(subscribed_topic_names=context.some_topics()): 3.5,
                    self._change_pattern: 2,
                    self._change_pattern_and_names: 1.5,
                    lambda: self._keep(
                        server_assignor=rng.choice(["uniform", "range", "range", "sticky"])
                    ): 2.5,
                    lambda: self._keep(
                        rebalance_timeout_ms=rng.choice([1000, 3000, 20000, 0, -5])
                    ): 1.5,
                    lambda: self._keep(rack_id=rng.choice(["r1", "r3"])): 1,
                    self._change_all: 1.5,
                    lambda: self._stray(-1): 4,
                    lambda: self._stray(-2 if self.instance else -1): 2.5,
                    self._join: 2,
                    lambda: self._keep(instance_id=rng.choice(instances)): 1,
                    lambda: self._keep(instance_id=rng.choice(["i0", "i1", "i2"])): 1,
                    self._ask_about_offsets: 5,
                    self._describe: 5.5,
                }
            )

    # -- what it can do ----------------------------------------------------------------------

    def _join(self) -> None:
        context, rng = self._context, self._rng
        self._owned, self._target = {}, {}
        fields: dict[str, Any] = {
            "rebalance_timeout_ms": rng.choice([1500, 4000, 9000, 30000, 30000]),
            "topic_partitions": {},
        }
        subscribed = context.weighted({"names": 82, "pattern": 14, "both": 4})
        if subscribed != "names":
            fields["subscribed_topic_regex"] = rng.choice(PATTERNS)
        if subscribed != "pattern":
            fields["subscribed_topic_names"] = context.some_topics()
        if context.chance(0.3):
            fields["server_assignor"] = rng.choice(["uniform", "range", "range"])
        if context.chance(0.1):
            fields["rack_id"] = rng.choice(["r1", "r2"])
        if context.chance(0.06):
            self._spoil(fields)
        self._heartbeat(0, fields)

    def _spoil(self, fields: dict[str, Any]) -> None:
        """Make a join wrong in one way."""
        wrong: dict[str, Any] = self._rng.choice(
            [
                {"rebalance_timeout_ms": None},
                {"subscribed_topic_names": None, "subscribed_topic_regex": None},
                {"topic_partitions": None},
                {"server_assignor": "sticky"},
                {"server_assignor": ""},
                {"instance_id": ""},
                {"rack_id": ""},
                {"topic_partitions": {min(self._context.topics): [0]}},
                {"subscribed_topic_names": []},
            ]
        )
        for key, value in wrong.items():
            fields.pop(key, None)
            if value is not None:
                fields[key] = value

    def _keep(self, **fields: Any) -> None:
        self._heartbeat(self._epoch, fields)

    def _stray(self, epoch: int) -> None:
        self._heartbeat(epoch, {})

    def _confirm(self) -> None:
        self._owned = self._kept()
        self._keep(topic_partitions=self._owned)

    def _confirm_a_part(self) -> None:
        part = self._kept()
        if part:
            topic = self._rng.choice(sorted(part))
            part[topic].pop()
            if not part[topic] and self._context.chance(0.5):
                del part[topic]
        self._keep(topic_partitions=part)

    def _claim(self) -> None:
        """Report what it does not own, or what does not exist."""
        topic = self._context.a_topic()
        number = self._rng.randrange(self._context.topics[topic] + 1)
        self._keep(topic_partitions={topic: [number]})

    def _be_wrong(self) -> None:
        epoch = self._epoch + self._rng.choice([-1, -1, -1, 1, -2, 5])
        fields = {"topic_partitions": self._owned} if self._context.chance(0.6) else {}
        self._heartbeat(epoch, fields)

    def _change_pattern(self) -> None:
        self._keep(subscribed_topic_regex=self._rng.choice([*PATTERNS, "", "", "", "foo("]))

    def _change_pattern_and_names(self) -> None:
        self._keep(
            subscribed_topic_regex=self._rng.choice([*PATTERNS, ""]),
            subscribed_topic_names=self._rng.choice([[], self._context.some_topics()]),
        )

    def _change_all(self) -> None:
        assignor = {"server_assignor": "range"} if self._context.chance(0.4) else {}
        self._keep(
            topic_partitions=self._kept(),
            subscribed_topic_names=self._context.some_topics(),
            rebalance_timeout_ms=self._rng.choice([2000, 30000]),
            **assignor,
        )

    def _ask_about_offsets(self) -> None:
        self._context.ask_about_offsets(self._name, self._epoch, self.instance)

    def _describe(self) -> None:
        self._context.ask("describe")

    def _kept(self) -> dict[str, list[int]]:
        """The target as far as its topics have names here."""
        return {name: list(parts) for name, parts in self._target.items() if parts and name != "?"}

    # -- asking, and what it learns ----------------------------------------------------------

    def _heartbeat(self, epoch: int, fields: dict[str, Any]) -> None:
        context = self._context
        request = {"member_id": self._name, "member_epoch": epoch, **fields}
        if self.instance:
            request.setdefault("instance_id", self.instance)
        if request.get("instance_id", "") is None:
            del request["instance_id"]
        has_pattern = "subscribed_topic_regex" in request
        version = {} if has_pattern or not context.chance(0.02) else {"version": 0}
        answer = context.ask("heartbeat", **version, request=request)
        self._learn(epoch, answer, is_own=request.get("instance_id") == self.instance)
        context.has_patterns |= bool(request.get("subscribed_topic_regex"))
        context.wait_for_patterns()
        if has_pattern:
            context.sleep(self._rng.choice([400, 600]))

    def _learn(self, epoch: int, answer: Answer, *, is_own: bool) -> None:
        if answer["error_code"] == "none" and epoch < 0:
            self._forget()
            self._is_away = epoch == -2
        elif answer["error_code"] == "none":
            self._is_joined, self._is_away = True, False
            self._epoch = answer["member_epoch"]
            if answer["assignment"] is not None:
                self._target = answer["assignment"]
        elif answer["error_code"] in _GONE and is_own:
            self._forget()
