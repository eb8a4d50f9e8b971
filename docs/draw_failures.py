"""Make ``docs/failures.md``: five defects, shrunk, explained and drawn.

make failures
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from rebalance_sim.protocol.defects import DEFECTS
from rebalance_sim.scenarios.defects import defect_scenario
from rebalance_sim.scenarios.failure_screen import describe, led_to
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import Scenario, dump_scenario
from rebalance_sim.scenarios.shrinking.shrink import shrink
from rebalance_sim.scenarios.traces.run_trace import run_trace_of
from rebalance_sim.scenarios.traces.sequence_diagram import plot_sequence, write_svg
from rebalance_sim.scenarios.traces.story import Entry, folded, story_of
from rebalance_sim.sim.trace import FullTrace

DOCS = Path(__file__).parent
FOLDER = DOCS / "failures"
MAX_RUNS = 250
ENTRIES_DRAWN = 32


class Told(NamedTuple):
    """A defect, and what its failure shows to somebody who knows Kafka."""

    defect: str
    reading: str


PAGES = (
    Told(
        "mut-early-grant",
        "`b` joins, and the coordinator moves orders-1 from the target of `a` to `b`, and assigns "
        "it in the same step. `a` was never asked to revoke it.",
    ),
    Told(
        "KAFKA-9801",
        "The static member `b` sends its SyncGroup and crashes before the response, whose record "
        "is still being replicated. It returns under a new member id. The group replaces the id in "
        "the generation, and waits for its SyncGroup without a timer.",
    ),
    Told(
        "KAFKA-18641",
        "The automatic commit names offset 106, the position of the fetcher, but the application "
        "has processed up to 88. A crash now would lose eighteen records.",
    ),
    Told(
        "KAFKA-16185",
        "At 10.9 s `a` has revoked, but sends no heartbeat with its owned list to acknowledge it. "
        "The coordinator removes `a` when its rebalance timer expires. `a` joins again, and is "
        "STABLE with the old reconciliation still open.",
    ),
    Told(
        "KAFKA-19862",
        "The coordinator moves to broker 1 while the log is compacted. The record that releases "
        "orders-1 is compacted away before broker 1 reads it, the one that assigns it to another "
        "member is not. The load fails, and every request is refused from then on.",
    ),
)

HEAD = """\
# Five failures

<!-- Made by docs/draw_failures.py; edit that. -->

Five scenarios of `scenarios/defects/`, made small by `rebalance-sim shrink`, with the end of what
`run` prints ([the whole screen](getting-started.md#one-defect)). The scenarios are in
`docs/failures/`; the diagrams come from `rebalance-sim replay TRACE --around violation --svg FILE`.
"""


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    page = HEAD
    for told in PAGES:
        small = shrink(defect_scenario(told.defect), max_runs=MAX_RUNS).scenario
        file = FOLDER / f"{told.defect}.toml"
        about = f"# {DEFECTS[told.defect].title}. Made from its scenario by shrinking.\n"
        file.write_text(about + dump_scenario(small, defaults=False), encoding="utf-8")
        page += _section(told, small, f"docs/failures/{file.name}")
        print(file)
    (DOCS / "failures.md").write_text(page, encoding="utf-8")


def _section(told: Told, small: Scenario, file: str) -> str:
    trace = FullTrace()
    result = run(small, trace=trace)
    entries = [line.entry for line in folded(story_of(run_trace_of(trace, result)))]
    diagram = FOLDER / f"{told.defect}.svg"
    write_svg(plot_sequence(_around(entries, result.violations[0].step)), diagram)
    screen = describe(result, replay_command="...", story=led_to(small, result))
    ends = next(n for n, line in enumerate(screen) if line.startswith("  run  "))
    story = next(n for n, line in enumerate(screen) if line.startswith("  what led to it"))
    shown = "\n".join([screen[0], "...", *screen[story : ends - 1]])
    return (
        f"\n## {told.defect}: {DEFECTS[told.defect].title}\n\n"
        f"```console\n$ rebalance-sim run {file}   # exit 1\n{shown}\n...\n```\n\n"
        f"{told.reading}\n\n![The last steps as a sequence diagram](failures/{diagram.name})\n"
    )


def _around(entries: list[Entry], violated: int) -> list[Entry]:
    return [entry for entry in entries if entry.step <= violated][-ENTRIES_DRAWN:]


if __name__ == "__main__":
    main()
