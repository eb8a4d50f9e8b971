"""A fault of one's own: an operator restarts the wrong client, twice in a row."""

from dataclasses import dataclass

from rebalance_sim.sim.faults.fault import Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorError(Fault):
    """An operator kills a client, and its successor as well."""

    client: str
    down_ms: int = 1_000

    def begin(self, world):
        return world.client_processes.crash(self.client, self.down_ms)

    @classmethod
    def drawn(cls, draw, rule, targets, at_ms):
        client = targets.client(draw).name
        for time_ms in (at_ms, at_ms + 2_000):
            if time_ms < targets.duration_ms:
                yield cls(at_ms=time_ms, client=client)
