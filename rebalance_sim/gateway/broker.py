"""A gateway in a thread of its own, for tests of clients."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from rebalance_sim.gateway.rules import Rules
from rebalance_sim.gateway.server import Found, Server
from rebalance_sim.gateway.settings import GatewaySettings, load_settings
from rebalance_sim.invariants.property import Stuck
from rebalance_sim.scenarios.codec import decode

_T = TypeVar("_T")
_CALL_S = 30
_POLL_S = 0.05


class Gateway:
    """A broker for groups, with which real clients speak; to be used in ``with``.

        with rebalance_sim.Gateway(topics={"orders": 4}) as broker:
            broker.add_records("orders", [b"one", b"two"])
            broker.rules.add(api="Heartbeat", action="error", error="NOT_COORDINATOR")
            ...  # clients with bootstrap.servers = broker.bootstrap
            broker.assert_ok()

    ``settings``: a value or a file; ``keys``: settings by name, in front of those. Raises
    ScenarioError for what is no setting, and OSError if the port is taken.
    """

    def __init__(
        self, settings: GatewaySettings | Path | str | None = None, *, port: int = 0, **keys: Any
    ) -> None:
        if isinstance(settings, Path | str):
            settings = load_settings(Path(settings))
        if settings is None:
            settings = decode(GatewaySettings, keys)
        elif keys:
            given = decode(GatewaySettings, keys)
            settings = replace(settings, **{name: getattr(given, name) for name in keys})
        self.settings = settings
        self._port = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="gateway", daemon=True)
        self._server: Server | None = None
        self._listeners: list[Callable[[Found], object]] = []

    # -- its life --------------------------------------------------------------------------------

    def __enter__(self) -> Gateway:
        self._thread.start()
        try:
            self._server = self._run(self._start())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._run(self._server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CALL_S)
        self._loop.close()

    async def _start(self) -> Server:
        server = Server(self.settings, on_violation=self._tell)
        await server.start(self._port)
        return server

    def _tell(self, found: Found) -> None:
        for listener in self._listeners:
            listener(found)

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_CALL_S)

    def _call(self, act: Callable[[Server], _T]) -> _T:
        """Do something inside the loop."""

        async def there() -> _T:
            return act(self._here)

        result: _T = self._run(there())
        return result

    @property
    def _here(self) -> Server:
        if self._server is None:
            raise RuntimeError("the gateway does not run: use it in `with`")
        return self._server

    # -- what tests ask and do -------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """``bootstrap.servers`` of its clients."""
        host, port = self._here.address
        return f"{host}:{port}"

    @property
    def rules(self) -> Rules:
        """The faults in force, which may be added and taken away at any time."""
        return self._here.rules

    @property
    def violations(self) -> Sequence[Found]:
        """Properties that did not hold, in the order in which they were found."""
        return self._here.violations

    def on_violation(self, listener: Callable[[Found], object]) -> None:
        """Call ``listener`` with each violation, in the gateway's thread, as it is found."""
        self._listeners.append(listener)

    def unsettled(self, group_id: str) -> Sequence[Stuck]:
        """What has to happen once nothing disturbs a group, and has not yet: members that are
        not at rest, partitions without a consumer, records that are not handed out. As far as
        clients report (docs/gateway.md); empty of others."""
        return self._call(lambda server: server.unsettled(group_id))

    def assert_settled(self, group_id: str, *, within_s: float = 30.0) -> None:
        """Raises AssertionError with the first thing that has not happened after this time, or is
        violated."""
        end = time.monotonic() + within_s
        while stuck := self.unsettled(group_id):
            if time.monotonic() > end:
                raise AssertionError(f"not within {within_s:g} s: {stuck[0]}")
            time.sleep(_POLL_S)
        self.assert_ok()

    def assert_ok(self) -> None:
        """Raises AssertionError with the first violation, or the first bug of the gateway, if there
        is one."""
        for problem in (*self.violations, *map(repr, self._here.escapes)):
            raise AssertionError(str(problem))

    def not_judged(self, group_id: str) -> Sequence[str]:
        """What could not be judged of a group, each in a line: what known issues of the version may
        be the reason of, reports that were refused. Of clients that do not report nothing is judged
        but requests and answers; ``reporter_count`` says how many have."""
        return self._call(lambda server: server.not_judged(group_id))

    @property
    def reporter_count(self) -> int:
        """How many clients have reported that they start."""
        return self._call(lambda server: server.reports.started_count)

    def add_records(
        self, topic: str, values: Iterable[bytes], partition: int | None = None
    ) -> None:
        """Append records: to one partition, or to all in turn. Raises KeyError for a topic, and
        IndexError for a partition, that there is not, and TypeError for values that are no bytes.
        """
        rows = list(values)
        for value in rows:
            if not isinstance(value, bytes):
                raise TypeError(f"values of records are bytes, got {value!r}")
        self._call(lambda server: server.add_records(topic, rows, partition))

    def set_topic(self, name: str, partition_count: int) -> None:
        """Make a topic, or give it more partitions. Raises ValueError for a name that is none, and
        for fewer partitions than it has, or none."""
        self._call(lambda server: server.set_topic(name, partition_count))

    def delete_topic(self, name: str) -> None:
        """Delete a topic. Raises KeyError if there is none."""
        self._call(lambda server: server.delete_topic(name))

    def move_coordinator(self, *, lost_records: int = 0, load_ms: int = 0) -> None:
        """The coordinator gives up its groups, and after ``load_ms`` loads them from the log again,
        without the last ``lost_records`` records. Raises ValueError for less than 0."""
        self._call(
            lambda server: server.move_coordinator(lost_records=lost_records, load_ms=load_ms)
        )

    def close_connections(self, client_id: str) -> None:
        """Close the connections of a client; ``*`` stands for any letters."""
        self._call(lambda server: server.close_connections(client_id))

    def state(self, group_id: str) -> str:
        """The state of a group, as Kafka names it; empty without a group."""
        return self._call(lambda server: server.state(group_id))

    def members(self, group_id: str) -> frozenset[str]:
        """The ids of the members of a group; none without a group."""
        return self._call(lambda server: server.members(group_id))

    def end_offsets(self, topic: str) -> Mapping[tuple[str, int], int]:
        """Topic and partition -> offset of the next record. Raises KeyError without a topic."""
        return self._call(lambda server: server.end_offsets(topic))

    def committed(self, group_id: str) -> Mapping[tuple[str, int], int]:
        """Topic and partition -> committed offset."""
        return self._call(lambda server: server.committed(group_id))

    @property
    def groups(self) -> Sequence[str]:
        """The groups that requests have named."""
        return self._call(lambda server: server.group_ids)

    def trace(self, group_id: str) -> Mapping[str, Any]:
        """What the group went through, as ``rebalance-sim conformance`` replays it. Raises KeyError
        for a group that no request has named, and for a version that is of no release."""
        return self._call(lambda server: server.recordings.trace(group_id))
