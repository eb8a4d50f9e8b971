"""The timeline of a run: what it holds, and that both ways of drawing it show the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import rebalance_sim as rs
from rebalance_sim.scenarios.pages.timeline import make_timeline
from rebalance_sim.scenarios.pages.timeline_plots import colours_of
from rebalance_sim.scenarios.pages.timeline_rows import TimelineTrace
from rebalance_sim.scenarios.result import RunResult
from rebalance_sim.scenarios.scenario import Scenario

BAD_MINUTE = """
name = "a bad minute"

[world]
seed = 11
duration_ms = 40_000
quiet_period_ms = 60_000
topics = [{ name = "orders", partition_count = 4 }]

[world.config]
group_consumer_session_timeout_ms = 6_000
group_consumer_min_session_timeout_ms = 6_000
group_consumer_heartbeat_interval_ms = 1_000
group_consumer_min_heartbeat_interval_ms = 1_000

[[world.clients]]
name = "a"
topics = ["orders"]

[[world.clients]]
name = "b"
topics = ["orders"]
start_ms = 8_000

[[world.faults]]
kind = "client_crash"
at_ms = 20_000
client = "a"
down_ms = 3_000

[[world.faults]]
kind = "broker_crash"
at_ms = 30_000
duration_ms = 5_000
"""


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return rs.parse_scenario(BAD_MINUTE)


@pytest.fixture(scope="module")
def run(scenario: Scenario) -> tuple[RunResult, TimelineTrace]:
    trace = TimelineTrace()
    return rs.run(scenario, trace=trace), trace


@pytest.fixture(scope="module")
def timeline(run: tuple[RunResult, TimelineTrace]) -> rs.Timeline:
    return make_timeline("a bad minute", *run)


def test_it_watches_and_changes_nothing(
    scenario: Scenario, run: tuple[RunResult, TimelineTrace]
) -> None:
    assert run[0].digest == rs.run(scenario).digest


def test_gaps_are_the_time_without_an_owner(
    timeline: rs.Timeline, run: tuple[RunResult, TimelineTrace]
) -> None:
    """But for the time before the first owner, which counts from the first member on."""
    gaps_ms = sum(gap.to_ms - gap.from_ms for gap in timeline.gaps)
    before_ms = run[0].metrics["unowned_partition_ms"] - gaps_ms
    assert gaps_ms > 0
    first_ms = {
        p: min(i.from_ms for i in timeline.intervals if i.partition == p)
        for p in timeline.partitions
    }
    assert 0 <= before_ms <= sum(first_ms.values())


def test_faults_have_the_time_that_they_took(timeline: rs.Timeline) -> None:
    assert [tuple(band) for band in timeline.bands] == [
        ("client_crash(a)", 20_000, 20_000),
        ("broker_crash", 30_000, 35_000),
    ]


def test_lives_and_epochs_are_those_of_the_run(timeline: rs.Timeline) -> None:
    of_a = [(one.at_ms, one.text) for one in timeline.moments if one.actor == "a"]
    assert of_a == [(0, "starts"), (20_000, "crashes"), (23_000, "starts")]
    epochs = [epoch for _, epoch in timeline.group_epochs["group"]]
    assert epochs == sorted(epochs) and len(epochs) >= 3
    assert max(epoch for _, epoch in timeline.member_epochs["b"]) == epochs[-1]
    assert (20_000, 0) in timeline.member_epochs["a"]


def test_a_classic_group_has_generations_and_owners(scenario: Scenario) -> None:
    timeline = rs.timeline_of(rs.with_protocol(scenario, "eager"))
    assert timeline.members == ["a", "b"]
    assert len(timeline.group_epochs["group"]) >= 3


def test_it_ends_soon_after_the_last_change(timeline: rs.Timeline) -> None:
    assert 35_000 < timeline.until_ms < 60_000


def test_a_run_can_be_gone_through_step_by_step(timeline: rs.Timeline) -> None:
    half = timeline.until(31_000)
    assert max(row.to_ms for row in half.intervals) == 31_000
    assert [tuple(band) for band in half.bands][-1] == ("broker_crash", 30_000, 31_000)
    assert timeline.until(timeline.until_ms).gaps == timeline.gaps
    assert half.figure().axes[-1].get_xlim() == (0, 31)


def test_the_image_names_what_is_drawn_and_no_more(timeline: rs.Timeline) -> None:
    figure = timeline.figure()
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["a", "b", "no owner", "no owner, the last one crashed", "group epoch"]
    faults, epochs, owners = figure.axes
    assert {text.get_text() for text in faults.texts} == {"client_crash(a)", "broker_crash"}
    assert [label.get_text() for label in owners.get_yticklabels()] == [
        f"orders-{number}" for number in range(4)
    ]
    assert epochs.get_ylabel() == "epoch"


def test_the_interactive_plot_says_what_happened(timeline: rs.Timeline) -> None:
    figure = timeline.interactive()
    shown = [trace.name for trace in figure.data if trace.showlegend is not False]
    gaps = ["no owner", "no owner, the last one crashed"]
    assert shown == ["group epoch", "starts, crashes, loads", *gaps, "a", "b"]
    said = [text for trace in figure.data for text in trace.hovertext or ()]
    assert "20.000 s: a crashes" in said
    assert "broker_crash: 30.000 .. 35.000 s (5.000 s)" in said
    assert any(text.startswith("b owns orders-0<br>") for text in said)


def test_a_violated_property_is_marked() -> None:
    timeline = rs.timeline_of(rs.defect_scenario("mut-early-grant"))
    assert timeline.title.endswith(": violation")
    [found, *_] = timeline.findings
    marks = [trace for trace in timeline.interactive().data if trace.name == "violated or known"]
    assert found.actor in marks[0].hovertext[0]
    lines = timeline.figure().axes[-1].lines
    assert any(line.get_xdata()[0] == found.at_ms / 1000 for line in lines)


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf", "html"])
def test_equal_timelines_are_equal_files(
    timeline: rs.Timeline, tmp_path: Path, suffix: str
) -> None:
    files = [tmp_path / f"{name}.{suffix}" for name in "ab"]
    for file in files:
        timeline.save(file)
    contents = [file.read_bytes() for file in files]
    assert len(contents[0]) > 5_000
    assert contents[0] == contents[1]


def test_what_cannot_be_saved_is_refused(timeline: rs.Timeline, tmp_path: Path) -> None:
    with pytest.raises(rs.ScenarioError, match=r"no kind of image is '\.gif': choose one of \.svg"):
        timeline.save(tmp_path / "a.gif")
    with pytest.raises(rs.ScenarioError, match="give another file"):
        timeline.save(tmp_path / "nowhere" / "a.svg")


def test_without_plotly_there_is_the_image(
    timeline: rs.Timeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rebalance_sim.scenarios.documents.html_page.has_plotly", lambda: False)
    assert timeline._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(rs.ScenarioError, match=r"pip install 'rebalance-sim\[report\]'"):
        timeline.interactive()


def test_eight_members_have_colours_of_their_own_and_of_more_seven(
    timeline: rs.Timeline,
) -> None:
    def with_members(count: int) -> rs.Timeline:
        row = timeline.intervals[0]
        rows = [replace(row, member_id=f"c{n:02}", to_ms=row.from_ms + 1 + n) for n in range(count)]
        return replace(timeline, intervals=tuple(rows))

    assert len(set(colours_of(with_members(8)).values())) == 8
    many = with_members(12)
    colours = colours_of(many)
    # Those that own longest have their own; the five that own least share one.
    assert [label for label, _ in many.lines][:-1] == [f"c{n:02}" for n in range(5, 12)]
    assert many.lines[-1] == ("5 others", [f"c{n:02}" for n in range(5)])
    assert len({colours[f"c{n:02}"] for n in range(5)}) == 1
    assert len(set(colours.values())) == 8


def test_the_line_of_an_epoch_lasts_until_the_epoch_ends(timeline: rs.Timeline) -> None:
    figure = timeline.interactive()
    [line] = [t for t in figure.data if t.name == "a" and t.type == "scatter"]
    points = list(zip(line.x, line.customdata, strict=True))
    at_crash = [epoch for x, epoch in points if x == 20.0]
    epoch = max(e for at_ms, e in timeline.member_epochs["a"] if at_ms < 20_000)
    assert at_crash == [epoch, None]


def test_an_owner_that_crashed_is_told_from_one_that_gave_up(timeline: rs.Timeline) -> None:
    assert [tuple(one) for one in timeline.troubles] == [("a", 20_000, 23_000, "crashed")]
    held = {i.partition for i in timeline.intervals if i.member_id == "a" and i.to_ms == 20_000}
    crashed = {gap.partition for gap in timeline.gaps if gap.why == "crashed"}
    assert held and crashed == held
    assert all(gap.from_ms == 20_000 for gap in timeline.gaps if gap.why == "crashed")


def test_an_owner_that_does_not_run_is_told_from_one_that_does(scenario: Scenario) -> None:
    text = (
        BAD_MINUTE.partition("[[world.faults]]")[0]
        + """
[[world.faults]]
kind = "client_pause"
at_ms = 15_000
client = "a"
duration_ms = 2_000

[[world.faults]]
kind = "poll_stall"
at_ms = 25_000
client = "b"
duration_ms = 4_000
"""
    )
    timeline = rs.timeline_of(rs.parse_scenario(text))
    found = {(one.client, one.from_ms, one.to_ms, one.why) for one in timeline.troubles}
    assert found == {("a", 15_000, 17_000, "paused"), ("b", 25_000, 29_000, "away")}
    parts = {(row.member_id, row.from_ms, row.to_ms) for row, _ in timeline.hindered()}
    assert parts == {("a", 15_000, 17_000), ("b", 25_000, 29_000)}
    names = {trace.name for trace in timeline.interactive().data}
    assert {"owner paused", "owner does not poll"} <= names
    words = {text.get_text() for text in timeline.figure().legends[0].get_texts()}
    assert {"owner paused", "owner does not poll"} <= words


@pytest.mark.parametrize("profile", ["faulty", "cooperative", "classic"])
def test_the_area_below_the_standstill_of_members_is_the_metric(profile: str) -> None:
    """Two computations of one figure: from the intervals of owners, and by the run itself."""
    some = 0
    for seed in range(8):
        scenario = rs.generate(profile, seed)
        trace = TimelineTrace()
        result = rs.run(scenario, trace=trace)
        end_ms = result.simulated_ms
        points = make_timeline("a run", result, trace, until_ms=end_ms).standstill()
        ends = [at_ms for at_ms, _ in points[1:]] + [end_ms]
        area_ms = sum(count * (to - at) for (at, count), to in zip(points, ends, strict=True))
        assert area_ms == result.metrics["member_stopped_ms"], f"seed {seed}"
        some += area_ms > 0
    assert some
