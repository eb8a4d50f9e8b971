"""What a client of a world with a data plane takes in."""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.step import IntakeView, Step
from rebalance_sim.protocol.wire.topics import TopicPartition


def taken_positions(step: Step, entry: ClientEntry) -> Iterator[tuple[TopicPartition, int]]:
    """Positions of a ``PositionsKnown`` that the client has taken: not of what it has no more."""
    for partition, position in step.event.positions.items():
        state = entry.member.assigned.get(partition)
        if state is not None and state.has_valid_position and state.position == position:
            yield partition, position


def intake_of(step: Step) -> IntakeView:
    """Records and positions of the step's client. Raises ValueError in a world without records."""
    client = step.client
    if client is None or client.intake is None:
        raise ValueError("a client of a world with a data plane must show what it takes in")
    return client.intake
