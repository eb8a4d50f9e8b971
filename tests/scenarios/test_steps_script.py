"""The search among the steps of a run's page, as its script does it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence

import pytest

from rebalance_sim.scenarios.documents.html_page import asset

NODE = shutil.which("node")

pytestmark = pytest.mark.skipif(NODE is None, reason="the search is a script: needs node")

DOCUMENT = """
class Part {
  constructor(tag) { this.tag = tag; this.children = []; this.classList = { add() {} };
    this.textContent = ""; this.value = ""; }
  append(...parts) { this.children.push(...parts); }
  replaceChildren(...parts) { this.children = parts; }
  setAttribute() {}
}
const made = [];
globalThis.document = {
  createElement(tag) { const one = new Part(tag); made.push(one); return one; } };
globalThis.Option = class extends Part {};
const [rows, searches] = JSON.parse(process.argv[1]);
const root = new Part("div");
root.querySelector = () => ({ textContent: JSON.stringify(rows) });
start(root);
const search = made.find(one => one.type === "search");
const log = made.find(one => one.tag === "ol"), time = made.find(one => one.tag === "output");
console.log(JSON.stringify(searches.map(text => {
  search.value = text;
  search.oninput();
  return [log.children.map(one => one.textContent.split("  ").pop()), time.textContent];
})));
"""
"""As much of a browser as the script asks for, and what it lists for each search."""

SAID = (
    "a takes orders-0,1,2",
    "b takes orders-12",
    "c takes orders-0..59",
    "d takes my-orders-2",
    "e joins; takes Payments-2",
)


def listed(*searches: str) -> Sequence[tuple[Sequence[str], str]]:
    """For each search the lines that are left, and what stands in place of the time."""
    texts = ["change", *"abcde", "", *(said[2:] for said in SAID)]
    rows = {
        "clients": list("abcde"),
        "groups": [],
        "entries": [[n + 1, 0, 0, n + 1, 6, 7 + n, None, False] for n in range(len(SAID))],
        "states": {},
        "texts": texts,
        "left_out": 0,
    }
    script = f"const start = {asset('steps.js').strip()};\n{DOCUMENT}"
    command = [NODE or "", "-e", script, json.dumps([rows, searches])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [(lines, time) for lines, time in json.loads(done.stdout)]


def test_without_a_search_all_steps_are_there() -> None:
    [(lines, time)] = listed("")
    assert lines == list(SAID)
    assert time.startswith("0.000 s, step ")


@pytest.mark.parametrize(
    ("search", "left"),
    [
        ("orders-2", "ac"),
        ("orders-12", "bc"),
        ("orders-60", ""),
        ("my-orders-2", "d"),
        ("PAYMENTS-2", "e"),
        ("takes", "abcde"),
        ("joins", "e"),
    ],
)
def test_a_partition_is_found_in_lists_and_ranges_and_a_word_anywhere(
    search: str, left: str
) -> None:
    [(lines, _)] = listed(search)
    assert "".join(line[0] for line in lines) == left


def test_what_matches_nothing_is_said_and_an_empty_search_brings_all_back() -> None:
    (none, said), (lines, _) = listed("no such thing", "")
    assert (none, said) == ([], "nothing matches")
    assert lines == list(SAID)
