"""An administrator who looks at the groups now and then, as a monitoring tool does.

``WorldSpec.admin_interval_ms`` lets one into a world. It asks any broker for the coordinator of
each group and describes the group there, and it lists the groups of every broker, sometimes with
filters. It changes nothing, and what it draws comes from streams of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.consumer.consumer_group import GroupState
from rebalance_sim.protocol.wire.classic_messages import DescribeGroupsRequest
from rebalance_sim.protocol.wire.consumer_messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ListGroupsRequest,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.sim.network.cluster_requests import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from rebalance_sim.sim.network.network import ADMIN, Connection, ConnectionState, Network, Purpose

_FILTER_SHARE = 0.3
_STATES = tuple(sorted({state.value for state in (*GroupState, *ClassicGroupState)}))
_TYPES = ("consumer", "classic")


class AdminClient:
    """Looks around every ``interval_ms``, give or take a half. A request that fails is forgotten:
    the next look asks again."""

    def __init__(self, network: Network, group_ids: Iterable[str], interval_ms: int) -> None:
        self._network = network
        self._clock = network.clock
        self._group_ids = tuple(group_ids)
        self._interval_ms = interval_ms
        self._draw = network.streams.get(f"{ADMIN}/looks")
        self._tie_break = network.streams.get(f"schedule/{ADMIN}").random
        self._connections: dict[int, Connection] = {}
        self._unanswered: dict[Connection, dict[int, Any]] = {}
        self._next_id = 0

    def start(self) -> None:
        """Look for the first time within one interval."""
        self._look_after(int(self._draw.random() * self._interval_ms))

    def _look_after(self, delay_ms: int) -> None:
        clock = self._clock
        clock.call_at(clock.now_ms + delay_ms, self._tie_break(), self._on_look)

    def _on_look(self, _: None) -> None:
        draw = self._draw
        count = len(self._network.servers)
        for group_id in self._group_ids:
            node_id = int(draw.random() * count)
            self._send(node_id, FindCoordinatorRequest(group_id=group_id))
        request = self._listing()
        for node_id in range(count):
            self._send(node_id, request)
        self._look_after(int(self._interval_ms * (0.5 + draw.random())))

    def _listing(self) -> ListGroupsRequest:
        draw = self._draw
        by_state, by_type = draw.random() < _FILTER_SHARE, draw.random() < _FILTER_SHARE
        return ListGroupsRequest(
            states_filter=(draw.choice(_STATES).lower(),) if by_state else (),
            types_filter=(draw.choice(_TYPES),) if by_type else (),
        )

    # --- connections ------------------------------------------------------------------------------

    def _send(self, node_id: int, request: Any) -> None:
        self._next_id += 1
        connection = self._connections.get(node_id)
        if connection is None:
            connection = self._connect(node_id)
        self._unanswered[connection][self._next_id] = request
        if connection.state is ConnectionState.OPEN:
            connection.send(self._next_id, request)

    def _connect(self, node_id: int) -> Connection:
        connection = self._connections[node_id] = Connection(
            self._network,
            owner=self,
            client_name=ADMIN,
            broker=self._network.servers[node_id],
            purpose=Purpose.BOOTSTRAP,
        )
        self._unanswered[connection] = {}
        connection.open()
        return connection

    def on_connected(self, connection: Connection) -> None:
        """Send what has waited."""
        for correlation_id, request in self._unanswered[connection].items():
            connection.send(correlation_id, request)

    def on_answer(self, connection: Connection, correlation_id: int, response: Any) -> None:
        """Continue from a coordinator to its group, and from what is no consumer group to what it
        may be instead, as Kafka's Admin does; anything else has been seen."""
        request = self._unanswered[connection].pop(correlation_id)
        if isinstance(response, FindCoordinatorResponse) and response.error_code is ErrorCode.NONE:
            describe = ConsumerGroupDescribeRequest(group_ids=(request.group_id,))
            self._send(response.node_id, describe)
        elif type(request) is ConsumerGroupDescribeRequest:
            others = tuple(row.group_id for row in response if _is_of_other_type(row))
            if others:
                node_id = connection.broker.node_id
                self._send(node_id, DescribeGroupsRequest(group_ids=others))

    def on_closed(self, connection: Connection) -> None:
        """A broker is gone, with what was asked of it."""
        del self._unanswered[connection]
        del self._connections[connection.broker.node_id]


def _is_of_other_type(row: ConsumerGroupDescribeResponse) -> bool:
    """Is there a group of this id that is no consumer group? The error alone does not say."""
    is_missing = row.error_code is ErrorCode.GROUP_ID_NOT_FOUND
    return is_missing and "is not a consumer group" in (row.error_message or "")
