"""Loading of traces recorded from real brokers.

A trace is one group's life: steps (request and response, in order) and the group log, batch by
batch. ``conformance/traces/README.md`` describes the format.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from rebalance_sim.conformance.broker_shape import (
    check_log,
    check_steps,
    check_times,
    check_topics,
)
from rebalance_sim.conformance.errors import TraceError
from rebalance_sim.conformance.log_compare import RecordedBatch, recorded_log
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.versions.semantics import RELEASES, Semantics

_KINDS: Mapping[str, type] = {
    "name": str,
    "broker": str,
    "broker_configs": dict,
    "topics": dict,
    "steps": list,
    "log": list,
}
_KEYS = tuple(_KINDS)


@dataclass(frozen=True, kw_only=True)
class BrokerTrace:
    """A recorded trace, with the semantics and the configuration that it names.

    What a recording need not have: ``generated``, the real ids that the coordinator made, by the
    ticket of the JoinGroup they were made for; ``seen_ms``, when metadata showed the change of
    topics of a step, by its index; ``end_ms``, when the answer to each step was in.
    """

    path: str
    name: str
    about: str
    semantics: Semantics
    config: CoordinatorConfig
    topics: Mapping[str, int]
    steps: tuple[Mapping[str, Any], ...]
    log: tuple[RecordedBatch, ...]
    generated: Mapping[str, str]
    seen_ms: Mapping[int, int]
    end_ms: tuple[int, ...]

    @cached_property
    def answered_ms(self) -> tuple[int, ...]:
        """When the answer to each step was in, as far as the recording tells: before the next step,
        or the end of the step that awaits it."""
        starts = [step["at_ms"] for step in self.steps]
        ends = list(self.end_ms) or [*starts[1:], starts[-1]]
        awaited = {
            step["id"]: end for step, end in zip(self.steps, ends, strict=True) if "id" in step
        }
        return tuple(
            awaited.get(step["async"], ends[-1]) if "async" in step else end
            for step, end in zip(self.steps, ends, strict=True)
        )

    @cached_property
    def resolved_ms(self) -> tuple[int, ...]:
        """When resolutions of patterns began, as the log tells."""
        return tuple(
            record["value"]["timestamp"]
            for batch in self.log
            for record in batch.records
            if record["type"] == "ConsumerGroupRegularExpression" and record["value"]
        )

    def member_of(self, index: int) -> str | None:
        """Who sends the request of a step, if the script has chosen the member id."""
        request = self.steps[index].get("request") or {}
        return request.get("member_id")

    @property
    def chosen_ids(self) -> Iterator[str]:
        """Member ids that the script chose itself."""
        for step in self.steps:
            if step["op"] == "heartbeat" and step["request"]["member_id"]:
                yield step["request"]["member_id"]


def read_json(path: Path) -> dict[str, Any]:
    """The object in a trace file. Raises TraceError for a missing, cut-off or foreign file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TraceError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    except UnicodeDecodeError as error:
        raise TraceError(f"{path}: is no text file; expected a JSON trace") from error
    except json.JSONDecodeError as error:
        raise TraceError(
            f"{path}: line {error.lineno}: {error.msg}; "
            "the file is cut off or no JSON, fetch it again"
        ) from error
    except (ValueError, RecursionError) as error:  # too many digits, or brackets in each other
        raise TraceError(f"{path}: is no trace: {error}; fetch it again") from error
    if not isinstance(data, dict):
        raise TraceError(f"{path}: holds no JSON object; expected a trace")
    return data


def load_broker_trace(path: str | Path) -> BrokerTrace:
    """Read one trace. Raises TraceError with one line naming the place and the remedy."""
    data = read_json(Path(path))
    missing = [key for key in _KEYS if key not in data]
    if missing:
        raise TraceError(f"{path}: has no {missing[0]!r}; expected keys {', '.join(_KEYS)}")
    _check_shape(path, data)
    return BrokerTrace(
        path=str(path),
        name=data["name"],
        about=data.get("about", ""),
        semantics=_semantics(path, data["broker"]),
        config=_config(path, data["broker_configs"]),
        topics=data["topics"],
        steps=tuple(data["steps"]),
        log=recorded_log(data["log"]),
        generated={ticket: real for ticket, real in data.get("generated", {}).items() if real},
        seen_ms={int(index): at_ms for index, at_ms in data.get("seen_ms", {}).items()},
        end_ms=tuple(data.get("end_ms", ())),
    )


def _check_shape(path: str | Path, data: Mapping[str, Any]) -> None:
    for key, kind in _KINDS.items():
        if not isinstance(data[key], kind):
            found = type(data[key]).__name__
            raise TraceError(f"{path}: {key!r} must be a {kind.__name__}, found {found}")
    check_topics(path, data["topics"])
    check_steps(path, data["steps"], data["topics"])
    check_log(path, data["log"])
    check_times(path, data)


def _semantics(path: str | Path, broker: str) -> Semantics:
    version = broker.removeprefix("Apache Kafka ")
    semantics = RELEASES.get(".".join(version.split(".")[:2]))
    if semantics is None:
        known = ", ".join(sorted(RELEASES))
        raise TraceError(f"{path}: broker {broker!r} is not modelled; known versions: {known}")
    return semantics


def _config(path: str | Path, configs: Mapping[str, Any]) -> CoordinatorConfig:
    """Settings that the coordinator does not read (of classic groups, of the log) are left out."""
    known = {field.name for field in fields(CoordinatorConfig)}
    named = {key.replace(".", "_"): value for key, value in configs.items()}
    try:
        return CoordinatorConfig(**{key: value for key, value in named.items() if key in known})
    except (ValueError, TypeError) as error:
        raise TraceError(f"{path}: broker_configs: {error}") from error
