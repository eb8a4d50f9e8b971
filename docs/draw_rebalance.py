"""Draw ``docs/rebalance.svg``, the figure in the README: our coordinator playing a case study.

make plot
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

from rebalance_sim.scenarios.case_studies import load_case_study
from rebalance_sim.scenarios.plots import plot_case_study

PLOT = Path(__file__).parent / "rebalance.svg"


def main() -> None:
    # Ids and date would differ from one drawing to the next.
    with matplotlib.rc_context({"svg.hashsalt": "rebalance"}):
        figure = plot_case_study(load_case_study("basic"))
        figure.savefig(PLOT, metadata={"Date": None})


if __name__ == "__main__":
    main()
