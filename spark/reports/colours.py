"""The colour of an outcome, the same in every picture and on every page."""

from __future__ import annotations

from rebalance_sim.spark.store.tables import NO_VERDICT

GREEN, AMBER, RED, GREY = "#3a7d44", "#d9a400", "#b23a48", "#8d99ae"
_KINDS = {GREEN: "good", AMBER: "known", RED: "bad", GREY: ""}


def colour_of(outcome: str) -> str:
    """Green for what passed, amber for a known issue, red for a finding, grey for what was
    not judged."""
    if outcome in ("vacuous", "not-judged", *NO_VERDICT):
        return GREY
    return {"ok": GREEN, "known": AMBER}.get(outcome, RED)


def tile_of(outcome: str) -> str:
    """The same as the kind of a tile of an ``HtmlPage``."""
    return _KINDS[colour_of(outcome)]
