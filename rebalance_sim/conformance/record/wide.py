"""Wide recordings: random requests of all kinds, drawn from a seed and from what is answered.

Members of both protocols, topics that change, administrators, offsets; epochs, generations and
instance ids that are often wrong.
"""

from __future__ import annotations

import random

from rebalance_sim.conformance.record.wide_classic import PROTOCOLS, ClassicMember
from rebalance_sim.conformance.record.wide_consumer import ConsumerMember, MemberIds
from rebalance_sim.conformance.record.wide_context import TOPICS, Asked, WideContext

_KINDS = ("consumer", "mixed", "consumer", "classic", "mixed")
_STATES = (
    "Stable",
    "Empty",
    "Reconciling",
    "Assigning",
    "Dead",
    "PreparingRebalance",
    "CompletingRebalance",
)
_SETTINGS = {
    "consumer.session.timeout.ms": [2000, 3000, 6000, 8000, 500, None],
    "consumer.heartbeat.interval.ms": [500, 700, 1000, 1500, 100, None],
}
_MOST_PARTITIONS = 8
_SETTLE_MS = 350


class WideScript:
    """The requests of one seed. Equal seeds ask the same as long as they are answered the same."""

    def __init__(self, seed: int) -> None:
        self.kind = _KINDS[seed % len(_KINDS)]
        self.name = f"wide_{seed:04d}"
        self.about = f"wide random sequence, seed {seed}, {self.kind}"
        self.every_topic = set(TOPICS)
        self.restarts_broker = False
        self._rng = random.Random(f"wide-{seed}")
        count = self._rng.choice([2, 3, 3, 4])
        self.topics = {name: self._rng.choice([1, 2, 3, 4, 6]) for name in TOPICS[:count]}
        self.topics.setdefault("foo", self._rng.choice([2, 3, 5]))

    def play(self, session: Asked, count: int) -> None:
        """Ask until there are so many steps, and twice more."""
        players = _Players(self._rng, self, session)
        while len(session.steps) < count:
            players.act()
        session.do({"op": "describe"})
        session.do({"op": "describe_classic"})


class _Players:
    def __init__(self, rng: random.Random, script: WideScript, session: Asked) -> None:
        context = WideContext(rng, script.topics, session)
        consumers = {"classic": [0], "mixed": [1, 2, 3, 4], "consumer": [2, 3, 4, 5, 6, 7]}
        classics = {"classic": [2, 3, 4], "mixed": [1, 1, 2, 3], "consumer": [0]}
        ids = MemberIds(context)
        common = rng.choice(PROTOCOLS)
        self._rng = rng
        self._context = context
        self._consumers = [
            ConsumerMember(context, ids, index)
            for index in range(rng.choice(consumers[script.kind]))
        ]
        self._classics = [
            ClassicMember(context, index, common)
            for index in range(rng.choice(classics[script.kind]))
        ]

    def act(self) -> None:
        context = self._context
        context.act(
            {
                lambda: context.sleep(self._rng.choice([50, 150, 300, 700, 1200, 2500, 2500])): 3.5,
                lambda: context.sleep(6500): 0.5,
                self._administrate: 8,
                self._let_a_member_act: 88,
            }
        )
        for member in self._classics:
            if context.chance(0.7):
                member.take_answer()
        if not self._consumers and all(member.is_waiting for member in self._classics):
            context.sleep(250)

    def _let_a_member_act(self) -> None:
        members: list[ConsumerMember | ClassicMember] = [*self._consumers, *self._classics]
        member = self._rng.choice(members)
        if isinstance(member, ConsumerMember):
            member.act(self._consumers)
        else:
            member.act()

    # -- administrators ------------------------------------------------------------------------

    def _administrate(self) -> None:
        context = self._context
        context.act(
            {
                self._grow: 22,
                self._delete_topic: 10,
                self._create_topic: 15,
                self._list_groups: 13,
                lambda: context.ask("describe"): 12,
                lambda: context.ask("describe_classic"): 8,
                self._configure: 8,
                lambda: context.ask("delete_group"): 6,
                lambda: context.ask_about_offsets("", -1, None): 6,
            }
        )

    def _grow(self) -> None:
        topics, name = self._context.topics, self._context.a_topic()
        if topics[name] < _MOST_PARTITIONS:
            topics[name] += self._rng.choice([1, 1, 2])
            self._context.ask(
                "create_partitions", topic=name, count=topics[name], settle_ms=_SETTLE_MS
            )

    def _delete_topic(self) -> None:
        context = self._context
        if len(context.topics) > 1:
            name = context.a_topic()
            del context.topics[name]
            context.absent = sorted([*context.absent, name])
            context.ask("delete_topic", topic=name, settle_ms=_SETTLE_MS)

    def _create_topic(self) -> None:
        context = self._context
        if context.absent:
            name = self._rng.choice(context.absent)
            context.absent.remove(name)
            context.topics[name] = self._rng.choice([1, 2, 3, 4])
            context.ask(
                "create_topic", topic=name, partitions=context.topics[name], settle_ms=_SETTLE_MS
            )

    def _list_groups(self) -> None:
        filters: dict[str, list[str]] = {}
        if self._context.chance(0.4):
            filters["states"] = self._rng.sample(_STATES, self._rng.choice([1, 2, 3]))
        if self._context.chance(0.4):
            types = ["consumer", "classic", "Classic", "share"]
            filters["types"] = self._rng.sample(types, self._rng.choice([1, 2]))
        self._context.ask("list_groups", **filters)

    def _configure(self) -> None:
        name = self._rng.choice(list(_SETTINGS))
        value = self._rng.choice(_SETTINGS[name])
        self._context.ask("alter_group_config", request={name: value})
