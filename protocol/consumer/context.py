"""What the handlers of one coordinator share: configuration, rules, topics, and small look-ups."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.consumer.resolution import RegexResolution
from rebalance_sim.protocol.runtime.coordinator_config import ConfigsInForce
from rebalance_sim.protocol.runtime.timeline import Timeline, new_table
from rebalance_sim.protocol.wire.topics import MetadataImage

if TYPE_CHECKING:
    from rebalance_sim.protocol.migration.migration_rules import MigrationRules

__all__ = ["CompileRegex", "CoordinatorContext", "metadata_hash", "no_regex_engine"]

CompileRegex = Callable[[str], Callable[[str], bool]]
"""pattern -> test of a whole topic name; raises ValueError for a bad pattern."""


class CoordinatorContext:
    """Rules never change. ``image`` is replaced when topics change, ``newest_topic_version`` is the
    version of the last image that brought a new topic, and ``configs`` is replaced when settings
    are altered; ``config`` are the broker's own.
    ``classic_groups`` are the coordinator's: soft state that handlers change in place.
    ``regex_resolutions`` are those under way, by group id; a group that has gone and come again has
    that of its predecessor, as the tasks of a broker belong to ids.
    ``timeline`` is None where nobody needs more than the newest state.

    ``compile_regex`` turns a pattern into a test of whole topic names; it raises ValueError with
    the reason for a pattern that does not compile.
    """

    __slots__ = (
        "classic_groups",
        "compile_regex",
        "config",
        "configs",
        "image",
        "new_member_id",
        "newest_topic_version",
        "regex_resolutions",
        "rules",
        "timeline",
    )

    def __init__(
        self,
        *,
        configs: ConfigsInForce,
        rules: MigrationRules,
        image: MetadataImage,
        new_member_id: Callable[[], str],
        compile_regex: CompileRegex,
        timeline: Timeline | None = None,
    ) -> None:
        self.configs = configs
        self.config = configs.broker
        self.rules = rules
        self.image = image
        self.newest_topic_version = image.version
        self.new_member_id = new_member_id
        self.compile_regex = compile_regex
        self.timeline = timeline
        self.classic_groups: dict[str, ClassicGroup] = new_table(timeline)
        self.regex_resolutions: dict[str, RegexResolution] = {}

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

    def topic_ids(self, names: Iterable[str]) -> frozenset[str]:
        """Ids of the topics that exist under these names; unknown names are skipped
        (coordinator §5.2)."""
        by_name = self.image.by_name
        return frozenset(by_name[name].topic_id for name in names if name in by_name)


def no_regex_engine(pattern: str) -> Callable[[str], bool]:
    """Refuses every pattern: a coordinator for hosts that bring no expression engine."""
    raise ValueError("this coordinator was built without a regular expression engine")


def metadata_hash(names: Iterable[str], image: MetadataImage) -> int:
    """A 64-bit hash over name, id and partition count of all existing topics of these names.

    0 if none of them exists (coordinator §1.1). The function is our own, as only equality matters.
    """
    digest = blake2b(digest_size=8)
    found = False
    for name in sorted(names):
        topic = image.by_name.get(name)
        if topic is not None:
            found = True
            digest.update(f"{name}\0{topic.topic_id}\0{topic.partition_count}\n".encode())
    return int.from_bytes(digest.digest(), "big", signed=True) or 1 if found else 0
