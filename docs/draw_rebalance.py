"""Draw ``docs/rebalance.svg`` and ``docs/rebalance-narrow.svg``, for the README on a screen and on
a phone: our coordinator playing a case study.

make plot
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

from rebalance_sim.scenarios.case_studies import load_case_study
from rebalance_sim.scenarios.plots import plot_case_study

FOLDER = Path(__file__).parent


def main() -> None:
    # Ids and date would differ from one drawing to the next.
    with matplotlib.rc_context({"svg.hashsalt": "rebalance"}):
        for name, is_narrow in (("rebalance", False), ("rebalance-narrow", True)):
            figure = plot_case_study(load_case_study("basic"), is_narrow=is_narrow)
            figure.savefig(FOLDER / f"{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
