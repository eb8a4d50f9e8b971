"""What a sweep writes: its plan, and one object for each batch, into any store.

::

    plan.json
    runs/b000123.parquet        all that batch 123 gave; where it is, the batch is done
    runs/b000124-17.parquet     the last batch, if it is short: here it has 17 seeds
    traces/seed-26.jsonl.gz     every step of a run that failed; written by the driver, at the end
    tables/..., manifest.json   what ``compact`` has put together, in place of the objects in runs/

An object appears whole, under a name that does not depend on who wrote it
(``spark.store.store``), and its rows depend on the plan alone, but for wall times. So a retry, a
second attempt or a second driver do no harm, and what is done is a listing of ``runs/``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rebalance_sim.spark.errors import SweepError
from rebalance_sim.spark.plan import SweepPlan
from rebalance_sim.spark.store import container
from rebalance_sim.spark.store.opening import open_store
from rebalance_sim.spark.store.reading import (
    PLAN_FILE,
    RUNS_FOLDER,
    batch_name,
    batches_of,
    manifest_of,
    plan_of,
)
from rebalance_sim.spark.store.store import Location, Store


class ResultFolder:
    """A folder that holds, or is to hold, the results of exactly one sweep."""

    def __init__(self, out: Location) -> None:
        """Raises SweepError if ``out`` is a URL that nothing here can write to."""
        self.store: Store = open_store(out)

    @property
    def path(self) -> Location:
        """Where the results are, to be shown and read."""
        return self.store.location()

    def plan(self) -> SweepPlan | None:
        """The plan of the sweep that is here; None if the folder is empty or missing.

        Raises SweepError if there is anything else.
        """
        try:
            self.store.check()
            if self.store.exists(PLAN_FILE):
                return plan_of(self.store)
            if any(self.store.list()):
                raise SweepError(
                    f"{self.path} has other content and no {PLAN_FILE}: give a new --out folder"
                )
        except NotADirectoryError as problem:
            raise SweepError(
                f"{self.path} is a file, or inside of one: give a folder for --out"
            ) from problem
        except OSError as problem:
            raise SweepError(f"cannot read {self.path} ({problem.strerror})") from problem
        return None

    def create(self, plan: SweepPlan, *, replace: bool = False) -> None:
        """Make the folder ready for ``plan``, also in place of another one if asked to.

        Raises SweepError if it cannot be written.
        """
        try:
            self.store.tidy()
            if replace or not self.store.exists(PLAN_FILE):
                self.store.put(PLAN_FILE, plan.to_json().encode())
        except OSError as problem:
            raise SweepError(f"cannot write to {self.path} ({problem.strerror})") from problem

    def batches_done(self, plan: SweepPlan) -> set[int]:
        """The batches of ``plan`` whose rows are all there."""
        manifest = manifest_of(self.store)
        present = set(self.store.list(RUNS_FOLDER))
        done = {i for i in range(plan.batch_count) if batch_name(plan, i) in present}
        return done | set(range(manifest.batches if manifest else 0))

    def shorter(self, plan: SweepPlan) -> dict[int, str]:
        """Batch -> its object with fewer seeds than ``plan`` has in it, from before it was
        extended."""
        done = self.batches_done(plan)
        return {
            index: name
            for index, name in batches_of(self.store).items()
            if index not in done and index < plan.batch_count
        }

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of a batch's object. Raises OSError or ValueError if it is damaged."""
        with self.store.open(f"{RUNS_FOLDER}/{name}") as file:
            return container.read_rows(file)

    def write_batch(
        self, plan: SweepPlan, index: int, rows: Sequence[Mapping[str, Any]], *, instead: str = ""
    ) -> None:
        """Publish the rows of one batch, by ascending seed; then remove the object that they
        replace."""
        name = batch_name(plan, index)
        self.store.put(f"{RUNS_FOLDER}/{name}", container.to_bytes(rows))
        if instead and instead != name:
            self.store.delete(f"{RUNS_FOLDER}/{instead}")
