"""A scenario file to begin with: the tables, and a comment beside each value.

What nothing is known about has the default of its key, and is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tomli_w

from rebalance_sim.scenarios.keys import keys_of
from rebalance_sim.scenarios.scenario import counted
from rebalance_sim.sim.client.client_spec import ClientSpec

GROUP_STARTS_MS = 60_000
"""How long a group has to come to rest before a deployment begins."""

_REST_MS = 60_000
_GAP_MS = 10_000


@dataclass(frozen=True, kw_only=True)
class Draft:
    """What is to stand in the file.

    Each of ``topics`` and ``clients`` is an entry of ``world``, which may have a ``count``.
    ``config``, ``brokers`` and ``network`` are tables of ``world``. ``not_modelled`` are settings
    that were given and mean nothing in a scenario; ``remarks`` is what else is to be said.
    """

    name: str
    topics: Sequence[Mapping[str, Any]]
    clients: Sequence[Mapping[str, Any]]
    config: Mapping[str, Any] = field(default_factory=dict)
    brokers: Mapping[str, Any] = field(default_factory=dict)
    network: Mapping[str, Any] = field(default_factory=dict)
    not_modelled: Sequence[str] = ()
    remarks: Sequence[str] = ()

    def client_names(self) -> list[str]:
        """The name of each client, as the file will have it."""
        return [one["name"] for one in counted(self.clients)]


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """Clients are stopped and come back ``down_ms`` later, in so many ``pods``: one pod after the
    other, or all of them ``at_once``."""

    pods: int
    down_ms: int
    at_once: bool = False

    def faults(self, clients: Sequence[str]) -> list[dict[str, Any]]:
        """The faults of a scenario with these clients."""
        if self.at_once:
            return [{"kind": "fleet_restart", "at_ms": GROUP_STARTS_MS, "down_ms": self.down_ms}]
        return [
            {
                "kind": "fleet_restart",
                "at_ms": GROUP_STARTS_MS + pod * (self.down_ms + _GAP_MS),
                "down_ms": self.down_ms,
                "clients": list(_share(clients, pod, self.pods)),
            }
            for pod in range(self.pods)
        ]

    @property
    def duration_ms(self) -> int:
        """How long the world has to last until the last pod is back, and some time after."""
        pods = 1 if self.at_once else self.pods
        return GROUP_STARTS_MS + pods * (self.down_ms + _GAP_MS) + _REST_MS


def _share(names: Sequence[str], index: int, of: int) -> Sequence[str]:
    return names[index * len(names) // of : (index + 1) * len(names) // of]


def text_of(draft: Draft, deployment: Deployment | None, *, seed: int = 1) -> str:
    """The file, with a comment beside each value. It is one that ``load_scenario`` takes, unless
    a value is none that its key may have."""
    return "\n".join(_lines(draft, deployment, seed)) + "\n"


def _lines(draft: Draft, deployment: Deployment | None, seed: int) -> Iterator[str]:
    yield "# A scenario to begin with. What is left out has its default; docs/keys.md has all keys."
    for remark in draft.remarks:
        yield f"# {remark}"
    if draft.not_modelled:
        yield f"# Not modelled, and left out: {', '.join(draft.not_modelled)}."
    yield ""
    yield _line("", "name", draft.name)
    if deployment is not None:
        yield from ("", "# The deployment by itself, without the first start of the group.")
        phase = {"name": "deploy", "from_ms": GROUP_STARTS_MS, "until": "rest"}
        yield from ("[[phases]]", *(f"{name} = {_value(value)}" for name, value in phase.items()))
    has_records = any(topic.get("records_per_second") for topic in draft.topics)
    duration_ms = GROUP_STARTS_MS * 2 if deployment is None else deployment.duration_ms
    world = {"seed": seed, "duration_ms": duration_ms, "data_plane": has_records}
    yield from _table("[world]", "world", world)
    if draft.config:
        yield from _table("[world.config]", "world.config", draft.config)
    if draft.brokers:
        yield from _table("[world.brokers]", "world.brokers", draft.brokers)
    if draft.network:
        yield from _table("[world.network]", "world.network", draft.network)
    yield from _tables("[[world.topics]]", "world.topics", draft.topics)
    clients = [{"name": one["name"], **one} for one in _keeping_up(draft)]
    yield from _tables("[[world.clients]]", "world.clients", clients)
    faults = [] if deployment is None else deployment.faults(draft.client_names())
    for index, fault in enumerate(faults):
        yield ""
        if len(faults) > 1:
            yield f"# Pod {index + 1} of {len(faults)} is stopped, and back down_ms later."
        yield "[[world.faults]]"
        for name, value in fault.items():
            yield f"{name} = {_value(value)}"


def _keeping_up(draft: Draft) -> Iterator[Mapping[str, Any]]:
    """The clients; those that would fall behind what is produced with the default of
    ``processing_ms`` poll twice as often as it takes."""
    produced = sum(
        one.get("records_per_second", 0) * one["partition_count"] for one in draft.topics
    )
    each = -(-produced // max(1, len(draft.client_names())))
    default = ClientSpec(name="any")
    for client in draft.clients:
        most = client.get("max_poll_records", default.max_poll_records) * 1_000
        if most < each * default.processing_ms:
            yield {**client, "processing_ms": most // (2 * each)}
        else:
            yield client


def _tables(head: str, path: str, entries: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Entries of a list; each key is explained where it comes first."""
    explained: set[str] = set()
    for entry in entries:
        yield from _table(head, path, entry, explained)


def _table(
    head: str, path: str, values: Mapping[str, Any], explained: set[str] | None = None
) -> Iterator[str]:
    known = set() if explained is None else explained
    yield ""
    yield head
    for name, value in values.items():
        yield f"{name} = {_value(value)}" if name in known else _line(path, name, value)
        known.add(name)


def _line(path: str, name: str, value: Any) -> str:
    meaning = {key.name: key.meaning for key in keys_of(path)}[name]
    first = meaning.replace("``", "").split(". ")[0].split("; ")[0].rstrip(".")
    return f"{name} = {_value(value)}  # {first[0].lower()}{first[1:]}"


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_value(one) for one in value)}]"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:_}"
    return tomli_w.dumps({"x": value}).strip().removeprefix("x = ")
