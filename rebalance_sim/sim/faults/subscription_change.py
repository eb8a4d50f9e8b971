"""An application subscribes to other topics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

from rebalance_sim.sim.client.client_checks import check_regex
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.fault import End, Fault
from rebalance_sim.sim.faults.ports import DrawRule, FaultWorld
from rebalance_sim.sim.faults.targets import Targets

_NOWHERE = "nowhere.*"
"""A pattern that matches nothing."""

_NOTHING_SHARE = 0.25
_PATTERN_SHARE = 0.15
_AGAIN_SHARE = 0.3
_SOON_MS = (1, 1_500)


def _drawn_subscription(draw: Draw, names: tuple[str, ...]) -> tuple[tuple[str, ...], str | None]:
    """Topics, or a pattern, or neither."""
    share = draw.between((0, 99)) / 100
    if share < _NOTHING_SHARE:
        return (), None
    topics = draw.some(names, 0.5)
    if share < _NOTHING_SHARE + _PATTERN_SHARE:
        return (), draw.pick((".*", "|".join(topics), f"{topics[0][:2]}.*", _NOWHERE))
    return tuple(topics), None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionChange(Fault):
    """The application calls ``subscribe`` with these topics, or with ``topic_regex``; neither means
    ``unsubscribe``."""

    client: str
    topics: tuple[str, ...] = ()
    topic_regex: str | None = None

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        if self.topics and self.topic_regex is not None:
            raise ValueError("topic_regex and topics exclude each other")
        check_regex(self.topic_regex)

    def begin(self, world: FaultWorld) -> End | bool:
        return world.client_processes.subscribe(self.client, self.topics, self.topic_regex)

    @classmethod
    def drawn(cls, draw: Draw, rule: DrawRule, targets: Targets, at_ms: int) -> Iterator[Fault]:
        client = targets.client(draw)
        names, back = targets.topic_names, targets.read_by(client)
        topics, regex = _drawn_subscription(draw, names)
        yield cls(at_ms=at_ms, client=client.name, topics=topics, topic_regex=regex)
        if draw.chance(_AGAIN_SHARE):
            # Before the first change has come to anything.
            soon_ms = targets.within(at_ms + draw.between(_SOON_MS))
            others, other_regex = _drawn_subscription(draw, names)
            yield cls(at_ms=soon_ms, client=client.name, topics=others, topic_regex=other_regex)
            topics, regex = others, other_regex
        back_ms = at_ms + draw.between(rule.duration_ms)
        stays = draw.chance(rule.forever_probability)
        # An application that subscribes to nothing for good would be a client that has gone.
        if not topics or not stays:
            yield cls(at_ms=targets.within(back_ms), client=client.name, topics=back)

    def simpler(self, topics: tuple[str, ...]) -> Iterator[Self]:
        """One topic less, or none that has to be created first."""
        if len(self.topics) > 1:
            for name in self.topics:
                yield replace(self, topics=tuple(t for t in self.topics if t != name))
        elif not set(self.topics) <= set(topics):
            yield replace(self, topics=topics)
