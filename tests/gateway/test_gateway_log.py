"""The log of a gateway does not grow with time: what later records replace is removed, and what is
loaded from the rest is the same."""

from __future__ import annotations

import pytest
from real_clients import consumer, gateway, read, share, until

from rebalance_sim.gateway import host

ALL = {("orders", number): 60 for number in range(4)}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_coordinator_that_moves_loads_from_a_compacted_log(monkeypatch, protocol):
    monkeypatch.setattr(host, "COMPACTED_FROM", 10)
    with gateway() as broker:
        clients = [consumer(broker, protocol) for _ in range(2)]
        share(clients, 2, 2)
        for first in range(0, 240, 40):
            rows = [b"%d" % number for number in range(first, first + 40)]
            broker.add_records("orders", rows)
            assert read(clients, 40) == set(rows)
        until(lambda: broker.committed("g") == ALL)
        log = broker._here.host.log
        assert 0 < log.cleaned_count < log.cleaned_to
        members = broker.members("g")
        broker.move_coordinator()
        assert broker.committed("g") == ALL
        assert broker.members("g") == members
        broker.add_records("orders", [b"more"] * 4)
        assert read(clients, 1) == {b"more"}
        for client in clients:
            client.close()
        broker.assert_ok()
