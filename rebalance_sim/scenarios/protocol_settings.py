"""Refuses a setting of a client that means nothing where it is given, with what to do: one that no
protocol which the client speaks has, with the one that applies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rebalance_sim.scenarios.codec import encode
from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.settings import Setting
from rebalance_sim.sim.checks import NONE
from rebalance_sim.sim.protocol_settings import ONLY_OF, protocols_spoken
from rebalance_sim.sim.spec import WorldSpec

_OF_CLIENTS = re.compile(r"world\.clients(?P<which>\[\*\]|.*)\.(?P<name>\w+)")


def left_out(clients: Iterable[Any]) -> list[Any]:
    """The tables of clients without settings of one protocol that are ``"none"``: so the cells of
    an experiment leave out what others have, whose clients speak the other protocol. With
    transactions there is no auto-commit, unless the table says that there is."""
    return [
        ({} if row.get("transactions", NONE) == NONE else {"enable_auto_commit": False})
        | {key: value for key, value in row.items() if key not in ONLY_OF or value != NONE}
        if isinstance(row, dict)
        else row
        for row in clients
    ]


def check_protocols(
    tables: Mapping[str, Any], world: WorldSpec, settings: Iterable[Setting]
) -> None:
    """Raises ScenarioError for what these tables give a client, or a deployment of one, and the
    world that they make does not keep. What is set of all clients has to suit one of them."""
    spoken = protocols_spoken(world.clients, world.faults).values()
    suits_one = set()
    for path, which, name in _of_clients(one for one in settings if one.plain != NONE):
        if which == "[*]":
            if not any(ONLY_OF[name].protocol in protocols for protocols in spoken):
                raise ScenarioError(_refusal(name), place=path)
            suits_one.add(name)
    for part, exempt in (("clients", suits_one), ("faults", set[str]())):
        rows = zip(tables.get(part, ()), getattr(world, part), strict=True)
        for index, (row, kept) in enumerate(rows):
            for name in [name for name in ONLY_OF if name in row and name not in exempt]:
                if row[name] not in (NONE, encode(getattr(kept, name))):
                    raise ScenarioError(_refusal(name), place=f"world.{part}[{index}].{name}")


def check_compared(settings: Iterable[Setting]) -> None:
    """Raises ScenarioError for a setting of clients that a comparison of protocols replaces."""
    for path, _, name in _of_clients(settings):
        raise ScenarioError(
            f"a comparison of protocols replaces it: {_remedy(name)}, or leave the protocols out",
            place=path,
        )


def _of_clients(settings: Iterable[Setting]) -> Iterator[tuple[str, str, str]]:
    for setting in settings:
        match = _OF_CLIENTS.fullmatch(setting.path)
        if match and match["name"] in ONLY_OF:
            yield setting.path, match["which"], match["name"]


def _refusal(name: str) -> str:
    protocol = ONLY_OF[name].protocol.value
    return f"only the {protocol} protocol has it, which is never spoken here: {_remedy(name)}"


def _remedy(name: str) -> str:
    return f"set {ONLY_OF[name].instead} instead"
