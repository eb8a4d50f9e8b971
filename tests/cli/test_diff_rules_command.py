"""``rebalance-sim diff-rules``: where two sets of rules decide differently."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from command_line import Outcome

Call = Callable[..., Outcome]
ONE_RUN = ("--profile", "faulty", "--seeds", "6:7")


def test_two_versions_differ_and_the_first_place_is_shown(call: Call) -> None:
    outcome = call("diff-rules", "kafka-4.3", "kafka-4.4", *ONE_RUN)
    assert outcome.code == 1
    lines = outcome.out.splitlines()
    assert "decisions of 1 runs by kafka-4.3 compared with kafka-4.4" in lines[0]
    assert lines[2] == "coordinator, LeaveGroup: records"
    assert lines[5].startswith("  kafka-4.3  ")
    assert lines[6] == f"{lines[5].replace('4.3', '4.4')}, ConsumerGroupTargetAssignmentMetadata"
    values = json.loads(call("diff-rules", "kafka-4.3", "kafka-4.4", *ONE_RUN, "--json").out)
    assert values["differences"] == sum(one["count"] for one in values["decisions"])
    assert f": {values['differences']} differ, in 1 runs" in lines[0]


def test_a_version_does_not_differ_from_itself(call: Call) -> None:
    outcome = call("diff-rules", "kafka-4.4", "kafka-4.4", *ONE_RUN)
    assert (outcome.code, outcome.out.count("\n")) == (0, 1)
    assert ": 0 differ, in 0 runs" in outcome.out


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("kafka-9", "kafka-4.4", *ONE_RUN), "kafka-9"),
        (("kafka-4.4", "kafka-4.4+nothing", *ONE_RUN), "nothing"),
        (("kafka-4.4", "kafka-4.4", *ONE_RUN, "--tree", "/nowhere"), "/nowhere"),
        (("kafka-4.4", "kafka-4.4", "--profile", "faulty", "--seeds", "9:2"), "9:2"),
        (("kafka-4.4", "kafka-4.4", "--profile", "nothing", "--seeds", "0:2"), "nothing"),
    ],
)
def test_bad_input_is_one_line(call: Call, arguments: tuple[str, ...], named: str) -> None:
    outcome = call("diff-rules", *arguments)
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert named in outcome.err
