"""Configuration of a consumer of either protocol, with Kafka's names, defaults and checks.

Source: client §9. All times are milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

_POSITIVE = (
    "max_poll_interval_ms",
    "request_timeout_ms",
    "default_api_timeout_ms",
    "auto_commit_interval_ms",
)
_NOT_NEGATIVE = ("retry_backoff_ms", "retry_backoff_max_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberConfig:
    """Settings of one consumer process, whatever protocol it speaks.

    ``client_rack`` "" means "not configured".
    ``request_timeout_ms`` is for the host, which reports a request that ran out of it with
    ``Disconnected``. ``uses_topic_ids`` says how offset requests name topics: by id where they can,
    as kafka-clients 4.3 does (True), always by name, as older ones and others do (False), or in
    neither way (None): a topic is known by its id, and one that is gone is unknown, whatever has
    its name. ``greedy_auto_commit`` is franz-go's. Raises ValueError where a consumer would refuse
    to start.
    """

    group_id: str
    group_instance_id: str | None = None
    client_rack: str = ""
    max_poll_interval_ms: int = 300_000
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    greedy_auto_commit: bool = False
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    request_timeout_ms: int = 30_000
    default_api_timeout_ms: int = 60_000
    uses_topic_ids: bool | None = None

    def __post_init__(self) -> None:
        if not self.group_id:
            raise ValueError("group_id must not be empty")
        check_not_empty(self, "group_instance_id")
        for name in _POSITIVE:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be >= 1, got {getattr(self, name)}")
        for name in _NOT_NEGATIVE:
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be >= 0, got {getattr(self, name)}")


def check_not_empty(config: MemberConfig, name: str) -> None:
    """Raise ValueError for a text that is "": what is not configured is None."""
    if getattr(config, name) == "":
        raise ValueError(f"{name} must not be empty; leave it None if it is not configured")
