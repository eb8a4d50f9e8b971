"""What a call has to run, what has come back of it, and when it is enough."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from time import monotonic

from rebalance_sim.spark.batch import Batch, BatchResult
from rebalance_sim.spark.options import SweepOptions
from rebalance_sim.spark.plan import SweepPlan
from rebalance_sim.spark.presence import Presence
from rebalance_sim.spark.progress import OnProgress, Progress
from rebalance_sim.spark.store.reading import batch_name, read_summary
from rebalance_sim.spark.store.results import ResultFolder
from rebalance_sim.spark.store.summary import Summary
from rebalance_sim.spark.store.tables import NO_VERDICT, PASSING

# The limits of a machine are said to the user; the process that ran it may have been unlucky.
SECOND_TRY = ("crash",)


class Enough(Exception):
    """The time budget is spent, or as much is found as was asked for. Says which."""


class Work:
    """The batches that one call runs, counted as they end."""

    def __init__(
        self, folder: ResultFolder, plan: SweepPlan, options: SweepOptions, on_progress: OnProgress
    ) -> None:
        self.presence: Presence | None = None
        self.runs = 0
        self._plan = plan
        self._options = options
        self._on_progress = on_progress
        self._started_s = monotonic()
        self._outcomes: Counter[str] = Counter()
        self._died: list[int] = []
        self._done = folder.batches_done(plan)
        shorter = folder.shorter(plan)
        missing = sorted(set(range(plan.batch_count)) - self._done)
        self._todo = [Batch(index, shorter.get(index, "")) for index in missing]
        self._todo += self._to_retry(folder)

    @property
    def headline(self) -> str:
        """What is to be done, in words."""
        what = "comparison" if self._plan.protocols else "sweep"
        what = "experiment" if self._plan.keeps_rebalances else what
        return (
            f"{what} {self._plan.sweep_id}: {len(self._todo)} of {self._plan.batch_count} "
            "batches to run"
        )

    def waves(self) -> Iterator[Sequence[Batch]]:
        """What is to be run; then, when that has ended, what died is tried once more, and mostly
        elsewhere."""
        yield self._todo
        if self._died:
            note = f"{len(self._died)} batches have runs whose process died: tried once more"
            self.report_progress(note)
            indices = sorted(self._died)
            self._outcomes["crash"] = 0
            yield [Batch(i, batch_name(self._plan, i), SECOND_TRY) for i in indices]

    def on_result(self, result: BatchResult) -> None:
        """Count a batch that has ended."""
        self._done.add(result.number)
        self._outcomes.update(result.outcomes)
        self.runs += result.runs
        if result.died:
            self._died.append(result.number)

    def report_progress(self, note: str = "") -> None:
        """Inform the listener. Raises Enough when it is."""
        if self.presence is not None and (said := self.presence.beat()):
            self._tell(said)
        self._tell(note)
        self._stop_if_enough()

    def _tell(self, note: str) -> None:
        self._on_progress(
            Progress(
                batches_done=len(self._done),
                batches_planned=self._plan.batch_count,
                seeds_planned=len(self._plan.seeds),
                note=note,
                outcomes=dict(+self._outcomes),
            )
        )

    def _stop_if_enough(self) -> None:
        if len(self._done) == self._plan.batch_count:
            return
        budget_s, most = self._options.time_budget_s, self._options.stop_after
        if budget_s is not None and monotonic() - self._started_s > budget_s:
            raise Enough(f"the time budget of {budget_s:g} s is spent")
        found = sum(
            count
            for name, count in self._outcomes.items()
            if name not in PASSING and name not in NO_VERDICT
        )
        if most is not None and found >= most:
            raise Enough(f"{found} runs found something")

    def _to_retry(self, folder: ResultFolder) -> list[Batch]:
        """The batches that have runs with an outcome that is to be tried again."""
        wanted = self._options.retry
        found: list[Batch] = []
        if wanted:

            def look(index: int, summary: Summary) -> None:
                if index in self._done and set(wanted) & set(+summary.outcomes):
                    found.append(Batch(index, batch_name(self._plan, index), wanted))

            read_summary(folder.store.url, look)
        return found
