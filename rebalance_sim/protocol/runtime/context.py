"""What the handlers of one coordinator share: configuration, rules, topics, groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from rebalance_sim.protocol.runtime.coordinator_config import ConfigsInForce, CoordinatorConfig
from rebalance_sim.protocol.runtime.coordinator_rules import CoordinatorRules
from rebalance_sim.protocol.runtime.timeline import Timeline, new_table
from rebalance_sim.protocol.wire.topics import MetadataImage

CompileRegex = Callable[[str], Callable[[str], bool]]
"""pattern -> test of a whole topic name; raises ValueError for a bad pattern."""

_G = TypeVar("_G")
_Part = TypeVar("_Part")
_Rules = TypeVar("_Rules", bound=CoordinatorRules, covariant=True)


class Tables(dict[type, dict[str, Any]]):
    """The groups by class and id; the table of a class is made at first use."""

    def __init__(self, timeline: Timeline | None) -> None:
        super().__init__()
        self._timeline = timeline

    def __missing__(self, group_class: type) -> dict[str, Any]:
        table = self[group_class] = new_table(self._timeline)
        return table


@dataclass(slots=True, eq=False, kw_only=True)
class CoordinatorContext(Generic[_Rules]):
    """Rules never change. ``image`` is replaced when topics change, ``newest_topic_version`` is the
    version of the last image that brought a new topic, and ``configs`` is replaced when settings
    are altered; ``config`` are the broker's own. ``timeline`` is None where no one needs more than
    the newest state. ``term`` is the leader epoch of the partition, by which a later coordinator
    can be distinguished from an earlier one; 0 where there is only one.

    ``now_ms`` is monotonic everywhere, as the clock of a broker's timers is. What is kept, written
    or compared with what another broker wrote uses the wall clock of the host, which may be set:
    it is ``wall_offset_ms`` ahead (``SystemTimer``, ``GroupMetadataManager``, and
    ``OffsetMetadataManager``: ``hiResClockMs`` and ``milliseconds`` of ``Time``).

    ``compile_regex`` turns a pattern into a test of whole topic names; it raises ValueError with
    the reason for a pattern that does not compile.
    """

    configs: ConfigsInForce
    rules: _Rules
    image: MetadataImage
    new_member_id: Callable[[], str]
    compile_regex: CompileRegex
    timeline: Timeline | None = None
    term: int = 0
    partition: int = 0
    wall_offset_ms: int = 0
    config: CoordinatorConfig = field(init=False)
    newest_topic_version: int = field(init=False)
    tables: Tables = field(init=False)
    _parts: dict[type, Any] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.config = self.configs.broker
        self.newest_topic_version = self.image.version
        self.tables = Tables(self.timeline)

    # -- groups ----------------------------------------------------------------------------

    def groups_of(self, group_class: type[_G]) -> dict[str, _G]:
        """All groups of this class by id."""
        return self.tables[group_class]

    def drop_group(self, group_class: type[Any], group_id: str) -> None:
        """Take a group out of memory, with no record that says so: a read at the last
        committed offset is shown it until the next record is committed, and a load brings it back
        (coordinator §9.4)."""
        with self._with_next_record():
            del self.groups_of(group_class)[group_id]

    def put_group(self, group_class: type[_G], group_id: str, group: _G) -> None:
        """Put a group into memory before the record that says so: a read at the last
        committed offset sees it from then on, and it is undone with the record."""
        with self._with_next_record():
            self.groups_of(group_class)[group_id] = group

    @contextmanager
    def _with_next_record(self) -> Iterator[None]:
        timeline = self.timeline
        if timeline is not None:
            timeline.offset = timeline.end
        try:
            yield
        finally:
            if timeline is not None:
                timeline.offset = None

    def part(self, part_class: type[_Part]) -> _Part:
        """What a group type shares with its own handlers beside groups: one object of this class,
        made without arguments at first use."""
        part = self._parts.get(part_class)
        if part is None:
            part = self._parts[part_class] = part_class()
        return cast(_Part, part)

    # -- state as a value ------------------------------------------------------------------

    @property
    def state(self) -> tuple[dict[type, dict[str, Any]], dict[type, Any]]:
        """The tables of groups by class, and the parts that group types share."""
        return self.tables, self._parts

    def take_state(self, tables: Mapping[type, dict[str, Any]], parts: Mapping[type, Any]) -> None:
        """Continue from another state; who has a table keeps it."""
        for group_class, table in self.tables.items():
            table.clear()
            table.update(tables.get(group_class, {}))
        self._parts.clear()
        self._parts.update(parts)

    # -- settings --------------------------------------------------------------------------

    def take_configs(self, configs: ConfigsInForce) -> None:
        """Go by other settings from now on."""
        self.configs = self.rules.configs_in_force(self.configs, configs)
        self.config = self.configs.broker

    def session_timeout_ms(self, group_id: str) -> int:
        """Of this group: its own setting, else the broker's."""
        return self.configs.session_timeout_ms(group_id)

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """Of this group: its own setting, else the broker's."""
        return self.configs.heartbeat_interval_ms(group_id)

    def assignment_interval_ms(self, group_id: str) -> int:
        """Of this group: its own setting, else the broker's; 0 where the version has none."""
        if not self.rules.has_assignment_interval:
            return 0
        return self.configs.assignment_interval_ms(group_id)

    def assignment_interval_is_over(
        self, group_id: str, last_ms: int | None, *, wall_ms: int
    ) -> bool:
        """Whether a new target may be computed at ``wall_ms``; the last one was at ``last_ms``,
        None or 0 where that is not known.

        An interval of 0 holds nothing up, also where the clock was set back (coordinator §4.3).
        """
        interval_ms = self.assignment_interval_ms(group_id)
        return not last_ms or not interval_ms or wall_ms - last_ms >= interval_ms

    # -- topics ----------------------------------------------------------------------------

    def topic_ids(self, names: Iterable[str]) -> frozenset[str]:
        """Ids of the topics that exist under these names; unknown names are skipped
        (coordinator §5.2)."""
        by_name = self.image.by_name
        return frozenset(by_name[name].topic_id for name in names if name in by_name)


def no_regex_engine(pattern: str) -> Callable[[str], bool]:
    """Refuses every pattern: a coordinator for hosts that bring no expression engine."""
    raise ValueError("this coordinator was built without a regular expression engine")
