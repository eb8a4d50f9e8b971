"""Every command and every seed that the documentation shows does what it says."""

from __future__ import annotations

import multiprocessing
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import PAGES, ROOT, Block, Command, blocks, commands, inline_commands, missing_line
from typer.main import get_command

from rebalance_sim.cli.main import app_of, plugins_first
from rebalance_sim.cli.start import main

BIN = Path(sys.executable).parent
ENVIRONMENT = {
    **os.environ,
    "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
    "PYTHONPATH": str(ROOT),
    "COLUMNS": "200",
}
RUN = frozenset({"console", "python"})
WRITTEN = frozenset({"results", ".venv", ".git"})
"""Folders that commands write to, or that are not the project's: no links to them."""

WRITES = re.compile(r"(?:--(?:out|trace|plot|svg|junit|markdown)|>)\s+(results/\S+)")
MODE = re.compile(r"|slow|parse|\w+\.(py|toml)")
MANY_SEEDS = 50
SHELL = re.compile(r"[|<>;&$*~`]|^(?!rebalance-sim )")
"""What only a shell understands, or another program runs."""
PLAIN = re.compile(r"(?:PYTHONPATH=(?P<path>\S+) )?(?P<words>.+?)(?: > (?P<file>\S+))?")
"""What a fork does for a shell: a folder of plug-ins, and output into a file."""
ON_SPARK = re.compile(r"^rebalance-sim (sweep|compare|experiment|defects|hunt)\b(?!.* pool\b)")


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def _shown(page: Path) -> list[Command]:
    return [c for block in blocks(page) if block.language == "console" for c in commands(block)]


WITH_COMMANDS = [page for page in PAGES if any(b.language in RUN for b in blocks(page))]
TESTED_ELSEWHERE = frozenset(
    ("rebalance-sim conformance conformance/traces", "rebalance-sim defects mut-early-grant")
)
"""Half a minute: ``tests/conformance`` replays all recordings, ``tests/cli`` sweeps a defect."""
INLINE = sorted(
    {words for page in PAGES for words in inline_commands(page)}
    - {c.words for page in PAGES for c in _shown(page)}
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder that looks like the project's, where commands may write what they like."""
    for entry in ROOT.iterdir():
        if entry.name not in WRITTEN:
            (tmp_path / entry.name).symlink_to(entry)
    return tmp_path


SOME_SLOW = [
    pytest.param(page, marks=pytest.mark.slow if page.stem in ("plugins", "results") else ())
    for page in WITH_COMMANDS
]


# --- what is shown is run -------------------------------------------------------------------------


@pytest.mark.parametrize("page", SOME_SLOW, ids=_name)
def test_the_quick_commands_of_a_page_print_what_it_shows(page: Path, checkout: Path) -> None:
    _run_page(page, checkout, modes={""})


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "page",
    [page for page in WITH_COMMANDS if any(b.mode == "slow" for b in blocks(page))],
    ids=_name,
)
def test_all_commands_of_a_page_print_what_it_shows(page: Path, checkout: Path) -> None:
    _run_page(page, checkout, modes={"", "slow"})


@pytest.mark.parametrize("words", INLINE)
def test_a_command_in_the_text_is_accepted_and_run_if_it_is_quick(
    words: str, checkout: Path
) -> None:
    _parse(words)
    if _is_quick(words) and words not in TESTED_ELSEWHERE:
        (checkout / "results").mkdir()
        _run_line(words, checkout)


# --- what is shown is accepted --------------------------------------------------------------------


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=_name)
def test_the_command_line_accepts_every_command_that_is_shown(page: Path) -> None:
    for command in _shown(page):
        for part in re.split(r"[|;]|&&", command.words):
            if part.strip().startswith("rebalance-sim "):
                _parse(part.strip())
            elif part.strip().startswith("make"):
                _run(["make", "-n", *shlex.split(part, comments=True)[1:]], ROOT)


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_commands_stand_in_console_blocks_and_python_is_python(page: Path) -> None:
    for block in blocks(page):
        place = f"{_name(page)}:{block.line}"
        if block.language in ("console", "python"):
            assert MODE.fullmatch(block.mode), place
        else:
            assert not re.search(r"^(\$ )?rebalance-sim ", block.text, re.M), place
        if block.language == "python":
            compile(block.text, place, "exec")


def test_every_sub_command_is_shown_in_the_documentation() -> None:
    shown = {
        name
        for page in PAGES
        for c in _shown(page)
        for name in re.findall(r"^rebalance-sim ([a-z-]+)", c.words)
    }
    assert shown == set(get_command(app_of()).commands)  # type: ignore[attr-defined]


def test_no_page_writes_over_the_files_of_another() -> None:
    """But for an experiment that two pages show: the second call continues with the first."""
    pages: dict[str, set[str]] = {}
    words: dict[str, set[frozenset[str]]] = {}
    for page in PAGES:
        for command in _shown(page):
            for file in WRITES.findall(command.words):
                pages.setdefault(file, set()).add(_name(page))
                words.setdefault(file, set()).add(frozenset(command.words.split()))
    assert pages
    assert not {file for file in pages if len(pages[file]) > 1 and len(words[file]) > 1}


def test_nothing_is_installed_by_a_name_that_no_index_has() -> None:
    """The package is not published: it is installed from a checkout, and its extras beside it."""
    by_name = re.compile(r"pip install [^\n]*(?<![\w./-])rebalance-sim(?![\w/])")
    files = [*PAGES, *(path for path in (ROOT / "examples").rglob("*") if path.is_file())]
    found = [
        file for file in files if by_name.search(file.read_text(encoding="utf-8", errors="replace"))
    ]
    assert found == []
    assert by_name.search("pip install 'rebalance-sim[hdfs]'")


# --- the tools of this test -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "printed", "missing"),
    [
        (["ok: 3 runs"], "ok: 3 runs\n", None),
        (["ok: ... runs"], "ok: 12 runs\n", None),
        (["ok: 3 runs"], "ok: 4 runs\n", "ok: 3 runs"),
        (["a", "...", "b"], "a\nx\ny\nb\n", None),
        (["b", "a"], "a\nb\n", "a"),
        (["digest 0123456789abcdef"], "digest 0123456789abcdef\n", None),
        (["digest 0123456789abcdef"], "digest 0123456789abcdee\n", "digest 0123456789abcdef"),
        (["a (b) [c]"], "a (b) [c]\n", None),
    ],
)
def test_output_is_compared_line_by_line(
    shown: list[str], printed: str, missing: str | None
) -> None:
    assert missing_line(shown, printed) == missing


def test_a_block_is_taken_apart() -> None:
    text = "$ one --a \\\n    --b   # exit 1: found\nprinted\n\n$ two\n"
    one, two = commands(Block(ROOT / "a.md", 3, "console", "slow", text))
    assert (one.words.split("#")[0].split(), one.exit_code) == (["one", "--a", "--b"], 1)
    assert (one.output, one.line, one.mode) == (("printed", ""), 3, "slow")
    assert (two.words, two.exit_code, two.output) == ("two", 0, ())


def test_output_before_the_first_command_is_an_error() -> None:
    with pytest.raises(ValueError, match="begins with no command"):
        list(commands(Block(ROOT / "a.md", 1, "console", "", "printed\n$ one\n")))


# --- helpers --------------------------------------------------------------------------------------


def _run_page(page: Path, folder: Path, modes: set[str]) -> None:
    (folder / "results").mkdir()
    for block in blocks(page):
        if "." in block.mode:
            (folder / block.mode).write_text(block.text, encoding="utf-8")
        elif block.mode not in modes:
            continue
        elif block.language == "python":
            _run([sys.executable, "-c", block.text], folder)
        elif block.language == "console":
            for command in commands(block):
                _check(command, f"{_name(page)}:{command.line}", folder)


def _check(command: Command, place: str, folder: Path) -> None:
    ran = _run_line(_as_run(command.words), folder, expected=command.exit_code)
    missing = missing_line(command.output, ran.stdout)
    assert missing is None, f"{place}: {missing!r} is not printed:\n{ran.stdout}"


def _as_run(words: str) -> str:
    """``make`` would set up an environment: what it runs in it is run here."""
    if not words.startswith("make"):
        return words
    recipe = _run(["make", "-n", *shlex.split(words, comments=True)[1:]], ROOT).stdout
    (last,) = [line for line in recipe.splitlines() if line.startswith(".venv/bin/rebalance-sim")]
    return last.removeprefix(".venv/bin/")


def _run_line(
    line: str, folder: Path, expected: int | None = 0
) -> subprocess.CompletedProcess[str]:
    plain = PLAIN.fullmatch(line)
    assert plain is not None, line
    if SHELL.search(plain["words"]) or ON_SPARK.search(plain["words"]):
        return _run(["bash", "-c", line], folder, expected)
    words = shlex.split(plain["words"], comments=True)
    ran = _checked(_run_in_fork(words, folder, plain["path"]), expected)
    if plain["file"]:
        (folder / plain["file"]).write_text(ran.stdout, encoding="utf-8")
        ran.stdout = ""
    return ran


def _run(
    words: list[str], folder: Path, expected: int | None = 0
) -> subprocess.CompletedProcess[str]:
    ran = subprocess.run(words, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True)
    return _checked(ran, expected)


def _checked(
    ran: subprocess.CompletedProcess[str], expected: int | None
) -> subprocess.CompletedProcess[str]:
    if expected is not None:
        said = f"{ran.args}: {ran.returncode}\n{ran.stdout}{ran.stderr}"
        assert ran.returncode == expected, said
    return ran


def _run_in_fork(
    words: list[str], folder: Path, path: str | None
) -> subprocess.CompletedProcess[str]:
    """The script in a fork of this process, which has loaded what a new one needs a second for."""
    out, err = folder / ".stdout", folder / ".stderr"
    fork = multiprocessing.get_context("fork").Process(target=_script, args=(words, folder, path))
    fork.start()
    fork.join()
    texts = [file.read_text(encoding="utf-8") for file in (out, err)]
    return subprocess.CompletedProcess(words, fork.exitcode or 0, *texts)


def _script(words: list[str], folder: Path, path: str | None) -> None:
    os.chdir(folder)
    os.environ.update(ENVIRONMENT)
    if path is not None:
        os.environ["PYTHONPATH"] = f"{path}{os.pathsep}{ROOT}"
        sys.path.insert(0, str(folder / path))
    sys.argv[:] = words
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        stream = open(f".{name}", "w", encoding="utf-8")  # noqa: SIM115
        os.dup2(stream.fileno(), descriptor)
        setattr(sys, name, stream)
    main()


def _parse(words: str) -> None:
    """Raises for an unknown sub-command, option or value."""
    _, *line = _before_redirection(shlex.split(words, comments=True))
    # A line of a page that loads plug-ins is read as any other: here they are not imported.
    line = [word for word in plugins_first(line) if not word.startswith("--plugin=")]
    while line[0] == "--plugin":
        del line[:2]
    name, *arguments = line
    if arguments != ["--help"]:
        get_command(app_of()).commands[name].make_context(name, arguments)  # type: ignore[attr-defined]


def _before_redirection(words: list[str]) -> Iterator[str]:
    for word in words:
        if word in (">", "2>"):
            return
        yield word


def _is_quick(words: str) -> bool:
    """Neither many seeds, nor placeholders such as SCENARIO, nor files of somebody else's."""
    seeds = re.search(r"--seeds (\d+):(\d+)", words)
    many = seeds is not None and int(seeds[2]) - int(seeds[1]) > MANY_SEEDS
    files = [word for word in words.split() if re.search(r"\.(toml|jsonl?|gz)$", word)]
    known = all((ROOT / file).exists() for file in files)
    is_placeholder = re.search(r"\b[A-Z]{3,}\b(?!-\d)", words) is not None
    return known and not many and not is_placeholder and "spark://" not in words
