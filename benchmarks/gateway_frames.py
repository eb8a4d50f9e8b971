"""Memory of a gateway that is sent random or mutated requests, one after the other.

Run: ``python benchmarks/gateway_frames.py --count 1000000``, with the extra ``gateway``.

A row each time the count has doubled from 25,000 on: resident memory, records in the log, and
what else is kept. The exit code is 1 if an exception that is a bug was met, or a property was
violated.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "gateway"))

from frames import mutated, new_server, random_frame, send

from rebalance_sim.gateway.server import Server
from rebalance_sim.gateway.wire.frames import APIS

_PAGE = os.sysconf("SC_PAGE_SIZE")
_FIRST_ROW = 25_000


def memory_mib() -> float:
    """Resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE / 2**20


def _row(server: Server, count: int, began_s: float) -> dict[str, Any]:
    log = server.host.log
    return {
        "requests": count,
        "memory_mib": round(memory_mib(), 1),
        "log_records": log.cleaned_count + log.end_offset - log.cleaned_to,
        "written": log.end_offset,
        "escapes": len(server.escapes),
        "violations": len(server.violations),
        "cpu_s": round(time.process_time() - began_s),
    }


async def run(count: int, first: int, asked: argparse.Namespace) -> bool:
    """Whether nothing was found."""
    server, began_s, next_row = (
        new_server(records_traces=asked.record),
        time.process_time(),
        _FIRST_ROW,
    )
    apis = tuple(asked.api or APIS)
    for number in range(1, count + 1):
        rng = random.Random(first + number)
        data = random_frame(rng, apis)
        await send(server, mutated(data, rng) if asked.mutated else data, 0.001)
        if number in (next_row, count):
            next_row *= 2
            print(json.dumps(_row(server, number, began_s)), flush=True)
        if server.escapes or server.violations:
            print(f"request {first + number}: {(server.escapes or server.violations)[0]!r}")
            return False
    return True


def main() -> int:
    """Print the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="the seed before the first")
    parser.add_argument("--mutated", action="store_true", help="change bytes of each frame")
    parser.add_argument("--api", action="append", choices=tuple(APIS), help="only these")
    parser.add_argument("--record", action="store_true", help="record traces, as for --record")
    asked = parser.parse_args()
    return 0 if asyncio.run(run(asked.count, asked.first, asked)) else 1


if __name__ == "__main__":
    sys.exit(main())
