"""``rebalance-sim conformance``: traces of real brokers and clients, replayed against the model."""

from __future__ import annotations

import json as json_text
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from rebalance_sim.cli.errors import BadInput
from rebalance_sim.cli.exit_codes import FOUND, OK
from rebalance_sim.cli.output import check_outputs, say, write_text

if TYPE_CHECKING:
    from rebalance_sim.conformance.broker_replay import BrokerReplayReport, Explanation
    from rebalance_sim.conformance.client_replay import ClientReplayReport
    from rebalance_sim.conformance.expected import ExpectedDifference

# What is counted, per kind of trace: how it is called, and the stem of the report's fields.
BROKER_COUNTS = {"responses": "responses", "log batches": "batches"}
CLIENT_COUNTS = {
    "client requests": "requests",
    "callbacks": "callbacks",
    "states": "states",
    "commits": "commits",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """A trace file and what its replay reports."""

    path: Path
    report: BrokerReplayReport | ClientReplayReport
    is_broker_trace: bool
    expected: ExpectedDifference | None = None

    @property
    def counts(self) -> dict[str, tuple[int, int]]:
        """What was compared -> (equal, compared)."""
        stems = BROKER_COUNTS if self.is_broker_trace else CLIENT_COUNTS
        return {
            name: (getattr(self.report, f"{stem}_ok"), getattr(self.report, f"{stem}_total"))
            for name, stem in stems.items()
        }

    @property
    def needs(self) -> str | None:
        """What the model lacks to replay the trace, or all of it."""
        needs = self.report.needs
        return None if needs is None else needs.removeprefix("needs: ")

    @property
    def explanations(self) -> Sequence[Explanation]:
        """What was changed for the replay to agree: of a broker's trace alone."""
        return getattr(self.report, "explanations", ())

    @property
    def explained(self) -> dict[str, dict[str, int]]:
        """What was compared -> how many of it agree only with a tolerance, by its name."""
        if not self.explanations:
            return {}
        report = cast("BrokerReplayReport", self.report)
        return {name: report.explained(stem) for name, stem in BROKER_COUNTS.items()}

    @property
    def verdict(self) -> str:
        """ok; explained: what differs has a cause that the recording does not contain, as was seen
        by replaying with it; expected: it differs as is declared beside it; differs: in another
        way, or not as is declared; needs: nothing was compared, the model lacks something."""
        difference = self.report.first_difference
        if self.expected is not None:
            is_shown = self.expected.is_shown_by(self.counts, difference or "")
            return "expected" if is_shown else "differs"
        if difference is not None:
            return "differs"
        compared = sum(total for _, total in self.counts.values())
        if self.needs is not None and not compared:
            return "needs"
        return "explained" if self.explanations else "ok"

    def describe(self, width: int = 0) -> Iterator[str]:
        """One line, what was changed for it to agree, and the first difference in full."""
        what = [] if self.verdict == "needs" else [_spell(self.counts)]
        what += [] if self.needs is None else [f"needs: {self.needs}"]
        yield f"{self.verdict:<8} {self.path!s:<{width}}  {'; '.join(what)}"
        for one in self.explanations:
            explained = f"{len(one.responses)} responses, {len(one.batches)} log batches"
            yield f"         explained by {one.name}: {explained} ({one.detail})"
        for line in (self.report.first_difference or "").splitlines():
            yield f"         {line}"
        if self.expected is not None:
            declared = f"{self.expected.reason} ({self.expected.source})"
            is_shown = self.verdict == "expected"
            yield f"         {'expected' if is_shown else 'not as declared'}: {declared}"


def conformance(
    paths: Annotated[list[Path], typer.Argument(help="Trace files, or folders of them.")],
    json: Annotated[Path | None, typer.Option(help="Write the result to this file, too.")] = None,
) -> int:
    """Replay recorded traces and compare every response, record, request and callback."""
    files = [file for path in paths for file in _trace_files(path)]
    check_outputs({"--json": json}, files)
    if json is not None:
        write_text(json, "")  # a file that cannot be written is found out before the replay
    width = max(len(str(file)) for file in files)
    replayed = []
    for file in files:
        row = replay_trace(file)
        replayed.append(row)
        for line in row.describe(width):
            say(line)
    for line in _totals(replayed):
        say(line)
    if json is not None:
        write_text(json, json_text.dumps(_as_json(replayed), indent=2) + "\n")
    return FOUND if any(row.verdict == "differs" for row in replayed) else OK


def replay_trace(path: Path) -> Replayed:
    """Replay one trace file, of whichever kind. Raises TraceError or BadInput."""
    from rebalance_sim.conformance.broker_replay import replay_broker_trace
    from rebalance_sim.conformance.broker_trace import load_broker_trace, read_json
    from rebalance_sim.conformance.expected import load_expected

    keys = read_json(path).keys()
    expected = load_expected(path)
    if "events" in keys:
        from rebalance_sim.conformance.client_replay import load_client_trace, replay_client_trace

        client = replay_client_trace(load_client_trace(path))
        return Replayed(path=path, report=client, is_broker_trace=False, expected=expected)
    if "steps" in keys:
        broker = replay_broker_trace(load_broker_trace(path))
        return Replayed(path=path, report=broker, is_broker_trace=True, expected=expected)
    raise BadInput(f"{path} is no trace: it has neither 'steps' (a broker) nor 'events' (a client)")


def _trace_files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]  # a missing file is reported by its loader
    files = sorted(path.rglob("*.json"))
    if not files:
        raise BadInput(f"{path} has no *.json file: give a trace, or a folder of traces")
    return files


def _totals(rows: Sequence[Replayed]) -> Iterator[str]:
    needs = Counter(row.needs for row in rows if row.needs is not None)
    if needs:
        reasons = ", ".join(f"{name} ({count})" for name, count in sorted(needs.items()))
        yield f"not or not wholly replayed: {needs.total()} of {len(rows)} traces, need: {reasons}"
    if any(row.explanations for row in rows):
        for folder, counts in _by_folder(rows).items():
            for name, count in counts.items():
                yield f"{folder}: {name}: {', '.join(_parts(count))}"
    yield _spell(_sums(rows)) or "nothing was compared"


def _by_folder(rows: Sequence[Replayed]) -> dict[str, dict[str, dict[str, Any]]]:
    """Folder -> what was compared -> how much of it agrees, is explained by what, and is not."""
    folders: dict[str, list[Replayed]] = {}
    for row in rows:
        folders.setdefault(str(row.path.parent), []).append(row)
    return {folder: _explained(of_folder) for folder, of_folder in folders.items()}


def _explained(rows: Sequence[Replayed]) -> dict[str, dict[str, Any]]:
    counts = {}
    for name, (met, compared) in _sums(rows).items():
        explained: Counter[str] = Counter()
        for row in rows:
            explained.update(row.explained.get(name, {}))
        counts[name] = {
            "agree": met - explained.total(),
            "explained": dict(sorted(explained.items())),
            "unexplained": compared - met,
        }
    return counts


def _parts(count: Mapping[str, Any]) -> Iterator[str]:
    yield f"agree: {count['agree']}"
    for name, explained in count["explained"].items():
        yield f"explained by {name}: {explained}"
    yield f"unexplained: {count['unexplained']}"


def _sums(rows: Sequence[Replayed]) -> dict[str, tuple[int, int]]:
    sums: dict[str, tuple[int, int]] = {}
    for row in rows:
        for name, (equal, compared) in row.counts.items():
            before = sums.get(name, (0, 0))
            sums[name] = (before[0] + equal, before[1] + compared)
    return sums


def _spell(counts: Mapping[str, tuple[int, int]]) -> str:
    return ", ".join(f"{name} {equal}/{compared}" for name, (equal, compared) in counts.items())


def _as_json(rows: Sequence[Replayed]) -> dict[str, Any]:
    return {
        "traces": [
            {
                "path": str(row.path),
                "verdict": row.verdict,
                **row.report.to_dict(),
                "needs": row.needs,
                "expected": None if row.expected is None else row.expected.reason,
            }
            for row in rows
        ],
        "folders": {
            folder: {name.replace(" ", "_"): count for name, count in counts.items()}
            for folder, counts in _by_folder(rows).items()
        },
        "totals": {
            name.replace(" ", "_"): {"equal": equal, "compared": compared}
            for name, (equal, compared) in _sums(rows).items()
        },
    }
