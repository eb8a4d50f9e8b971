"""The command line starts quickly: it imports only what a command needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rebalance_sim.cli.exit_codes import INTERRUPTED

HEAVY = ("pandas", "matplotlib", "pyarrow", "pyspark", "numpy", "simpy")
WORLD = ("rebalance_sim.sim.world", "rebalance_sim.invariants", "rebalance_sim.protocol.versions")


def modules_after(*arguments: str) -> set[str]:
    """The modules that a command has imported."""
    program = (
        "import sys\n"
        "from rebalance_sim.cli.start import main\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    print(*sys.modules, sep='\\n', file=sys.stderr)\n"
    )
    command = (sys.executable, "-c", program, *arguments)
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(finished.stderr.split())


def test_help_needs_neither_a_world_nor_a_table() -> None:
    imported = modules_after("--help")
    assert "rebalance_sim.cli.main" in imported
    assert imported.isdisjoint((*HEAVY, *WORLD))


def test_a_ctrl_c_while_modules_are_imported_is_no_traceback() -> None:
    program = (
        "import builtins, signal\n"
        "import rebalance_sim.cli.start as start\n"
        "usual = builtins.__import__\n"
        "def interrupted(name, *rest):\n"
        "    if name == 'rebalance_sim.cli.main':\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "    return usual(name, *rest)\n"
        "builtins.__import__ = interrupted\n"
        "start.main()\n"
    )
    finished = subprocess.run((sys.executable, "-c", program), capture_output=True, text=True)
    assert (finished.returncode, finished.stdout, finished.stderr) == (INTERRUPTED, "", "")


def test_without_arguments_the_help_is_all_there_is_to_say() -> None:
    finished = subprocess.run(
        (sys.executable, "-m", "rebalance_sim"), capture_output=True, text=True, check=False
    )
    assert finished.returncode == 2
    assert "Commands" in finished.stdout
    assert finished.stderr == ""


def test_a_command_that_is_named_is_the_only_one_to_be_imported() -> None:
    imported = modules_after("profiles")
    assert {"rebalance_sim.cli.profiles"} <= imported
    assert imported.isdisjoint({"rebalance_sim.cli.run", "rebalance_sim.cli.sweep"})


def test_a_run_draws_and_tabulates_nothing() -> None:
    imported = modules_after("run", "--profile", "calm", "--seed", "1")
    assert "rebalance_sim.sim.world" in imported
    assert imported.isdisjoint(set(HEAVY) - {"simpy"})


def test_a_scenario_file_needs_no_generator_and_a_silent_run_no_console(tmp_path: Path) -> None:
    generated = subprocess.run(
        (sys.executable, "-m", "rebalance_sim", "generate", "--profile", "calm", "--seed", "1"),
        capture_output=True,
        text=True,
        check=True,
    )
    scenario = tmp_path / "calm-1.toml"
    scenario.write_text(generated.stdout, encoding="utf-8")
    imported = modules_after("run", "--quiet", str(scenario))
    assert "rebalance_sim.sim.world" in imported
    assert imported.isdisjoint({"rebalance_sim.scenarios.generate.generator", "rich.console"})


def test_the_package_runs_as_the_command() -> None:
    """Where the script is not on the path, such as in a container, the module is."""
    command = (sys.executable, "-m", "rebalance_sim", "profiles")
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "\ncalm " in finished.stdout
