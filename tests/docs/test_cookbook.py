"""docs/cookbook.md has every experiment, and its sentences say what its tables say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import ROOT

from rebalance_sim.scenarios.experiment import load_experiment
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.runner import run

FOLDER = ROOT / "experiments"
FILES = sorted(FOLDER.glob("**/*.toml"))
EXPERIMENTS = sorted(FOLDER.glob("*.toml"))
ELSEWHERE = {"away": "experiments.md", "failover": "failover.md"}
"""Experiments with pages of their own."""
RECIPES = [file for file in EXPERIMENTS if file.stem not in ELSEWHERE]
COOKBOOK = (ROOT / "docs" / "cookbook.md").read_text(encoding="utf-8")
LINES_MOST = 25
SECTION = re.compile(
    r"^## (?P<question>.+)\n\n(?P<answer>(?:.+\n)+)\n```console parse\n(?P<command>.+)\n```\n\n"
    r"<!-- generated: cookbook-(?P<name>\w+) -->\n(?P<figures>(?:.*\n)*?)<!-- end -->$",
    re.M,
)
SECTIONS = {found["name"]: found for found in SECTION.finditer(COOKBOOK)}
NUMBER = re.compile(r"(?<![\w.-])\d[\d,_]*(?:\.\d+)?(?![\w])")


def _names(files: list[Path]) -> list[str]:
    return [file.relative_to(FOLDER).as_posix() for file in files]


@pytest.mark.parametrize("file", FILES, ids=_names(FILES))
def test_a_file_of_an_experiment_fits_on_a_screen(file: Path) -> None:
    assert len(file.read_text(encoding="utf-8").splitlines()) <= LINES_MOST


@pytest.mark.parametrize("file", EXPERIMENTS, ids=_names(EXPERIMENTS))
def test_an_experiment_asks_what_a_page_answers(file: Path) -> None:
    experiment = load_experiment(file)
    assert experiment.question
    if file.stem in ELSEWHERE:
        page = ELSEWHERE[file.stem]
        assert f"({page}" in COOKBOOK
        return
    section = SECTIONS[file.stem]
    assert section["question"] == experiment.question
    command = f"$ rebalance-sim experiment experiments/{file.name} --backend pool "
    assert section["command"] == f"{command}--out results/{file.stem}"
    assert len(section["answer"].splitlines()) == 3


@pytest.mark.quick_one_of(3)
@pytest.mark.parametrize("file", EXPERIMENTS, ids=_names(EXPERIMENTS))
def test_a_first_run_of_an_experiment_passes_and_is_judged(file: Path) -> None:
    experiment = load_experiment(file)
    scenario = generate(experiment.variants[0], experiment.first_seed)
    result = run(scenario, leaps=True)
    assert result.outcome in ("ok", "known")  # Of others there is no figure.
    assert set(experiment.metrics) <= set(result.metrics)


def test_the_pages_count_the_questions() -> None:
    """The page itself lists each of them once, and reports name only such as there are."""
    for page in ("README.md", "docs/getting-started.md"):
        counts = re.findall(r"(\d+) (?:questions|experiments)", (ROOT / page).read_text("utf-8"))
        assert counts == [str(len(RECIPES))], page
    lists, _, reports = COOKBOOK.partition("\n## Public reports\n")
    listed = re.findall(r"`(\w+)`", lists.partition("\n## ")[0].partition("|---|---|\n")[2])
    assert sorted(listed) == [file.stem for file in RECIPES]
    rows = [row.split(" | ")[1] for row in reports.splitlines() if row.startswith("| ")][1:]
    assert rows and set(re.findall(r"`(\w+)`", " ".join(rows))) <= set(listed)


def _value(text: str) -> float:
    return float(text.replace(",", "").replace("_", ""))


def _digits(text: str) -> int:
    """How far a number is told: the digits behind its point, or less than none of 1,200."""
    plain = text.replace(",", "").replace("_", "")
    if "." in plain:
        return len(plain.partition(".")[2])
    return min(0, len(plain.rstrip("0")) - len(plain)) if len(plain) > 1 else 0


@pytest.mark.parametrize("name", [file.stem for file in RECIPES])
def test_the_numbers_of_an_answer_are_in_its_table_or_its_experiment(name: str) -> None:
    """To as many digits as they are told. Times of an experiment are milliseconds there."""
    section = SECTIONS[name]
    asked = load_experiment(FOLDER / f"{name}.toml")
    told = [_value(number) for number in NUMBER.findall(section["figures"])]
    told += [_value(number) for number in NUMBER.findall(asked.base.text)]
    told += [_value(number) for number in NUMBER.findall((FOLDER / f"{name}.toml").read_text())]
    told += [number / 1_000 for number in told]
    for number in NUMBER.findall(section["answer"]):
        reach = 0.500001 * 10 ** -_digits(number)
        assert any(abs(value - _value(number)) <= reach for value in told), number


def test_a_number_that_no_table_has_is_noticed() -> None:
    assert NUMBER.findall("some 1,200 of 47.8 s, KIP-848 and max_2") == ["1,200", "47.8"]
    assert [_digits(number) for number in ("1,200", "47.8", "0", "10")] == [-2, 1, 0, -1]
