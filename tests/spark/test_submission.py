"""Who starts Spark, and whose settings count: the user's, the installation's, then ours."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from sample_plans import with_options
from submission import ROOT, environment, spark_submit

from rebalance_sim.spark import SweepError, SweepOptions, read_table, sweep
from rebalance_sim.spark.launch import settings_of
from rebalance_sim.spark.master import spark_defaults

FAKE = "fake_scenarios:run_observed"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"


# --- settings ------------------------------------------------------------------------------------


def test_the_user_wins_over_the_installation_and_it_over_us(tmp_path: Path) -> None:
    defaults = {"spark.app.name": "theirs", "spark.ui.enabled": "true", "spark.x": "theirs"}
    chosen = settings_of("yarn", tmp_path, {"spark.x": "mine"}, defaults)
    assert (chosen["spark.app.name"], chosen["spark.ui.enabled"]) == ("theirs", "true")
    assert (chosen["spark.x"], chosen["spark.master"]) == ("mine", "yarn")
    assert chosen["spark.python.unix.domain.socket.enabled"] == "true"
    assert "spark.driver.host" not in chosen
    assert settings_of("local[2,4]", tmp_path, {}, {})["spark.driver.host"] == "127.0.0.1"


def test_java_options_are_added_to_ours(tmp_path: Path) -> None:
    chosen = settings_of("yarn", tmp_path, {JAVA_OPTIONS: "-Dproxy=x"}, {JAVA_OPTIONS: "-Da=b"})
    assert re.fullmatch(
        r"-Dlog4j2.configurationFile=\S+ -XX:TieredStopAtLevel=1 -XX:\+UseSerialGC -Dproxy=x",
        chosen[JAVA_OPTIONS],
    )
    chosen = settings_of("yarn", tmp_path, {JAVA_OPTIONS: "-XX:+UseG1GC"}, {})
    assert "SerialGC" not in chosen[JAVA_OPTIONS]  # A JVM takes one collector only.


def test_defaults_of_the_installation_are_read(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# a comment\nspark.master  spark://host:7077\nspark.a=b c\n\nspark.d:e\nother x\n"
    )
    assert spark_defaults({"SPARK_CONF_DIR": str(tmp_path)}) == {
        "spark.master": "spark://host:7077", "spark.a": "b c", "spark.d": "e"
    }  # fmt: skip
    assert spark_defaults({"SPARK_HOME": str(tmp_path)}) == {}


def test_a_session_and_the_pool_are_one_too_many(tmp_path: Path) -> None:
    with pytest.raises(SweepError, match="give one of them"):
        sweep(
            profile="calm", seeds="0:2", out=tmp_path / "out", spark=object(),  # type: ignore[arg-type]
            options=SweepOptions(backend="pool"),
        )  # fmt: skip


# --- spark-submit --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.spark
def test_under_spark_submit_master_and_settings_stay(tmp_path: Path) -> None:
    events = tmp_path / "events"
    events.mkdir()
    command = [
        spark_submit(), "--master", "local[2]", "--name", "mine",
        "--conf", "spark.eventLog.enabled=true", "--conf", f"spark.eventLog.dir=file:{events}",
        "--conf", "spark.eventLog.compress=false", "--conf", "spark.ui.enabled=false",
        str(ROOT / "examples" / "cluster" / "main.py"),
        "sweep", "--profile", "mixed", "--seeds", "0:21", "--batch", "7", "--runner", FAKE,
        "--out", str(tmp_path / "out"),
    ]  # fmt: skip
    done = subprocess.run(
        command, env=environment(tmp_path), capture_output=True, text=True, timeout=550
    )
    assert done.returncode == 1, done.stderr[-3000:]  # It found something.
    assert (
        "\n21 seeds of mixed: 15 ok" in done.stdout
    )  # With what goes to standard error elsewhere.
    assert re.search(r"Spark \S+ at local\[2\]\n", done.stdout)
    said = "".join(file.read_text() for file in events.rglob("*") if file.is_file())
    assert '"spark.app.name":"mine"' in said
    assert '"spark.python.unix.domain.socket.enabled":"true"' in said
    assert "mixed, seeds 0:21" in said


# --- Spark Connect -------------------------------------------------------------------------------


CONNECTED_SWEEP = """
import sys
from rebalance_sim.spark import SweepOptions, sweep
options = SweepOptions(master=sys.argv[2], batch_size=7, runner="fake_scenarios:run_observed")
summary = sweep(profile="mixed", seeds="0:60", out=sys.argv[1], options=options,
                on_progress=lambda progress: progress.note and print(progress.note))
print(summary.outcomes)
"""


@pytest.mark.slow
@pytest.mark.spark
def test_a_sweep_on_a_connect_server_gives_the_rows_of_the_pool(
    connect_url: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CONNECTED_SWEEP, str(tmp_path / "connect"), connect_url],
        env=environment(tmp_path), capture_output=True, text=True, timeout=550,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "at a Spark Connect server\n" in done.stdout
    options = {"profile": "mixed", "seeds": "0:60", "batch_size": 7, "runner": FAKE}
    sweep(**with_options(**options, out=tmp_path / "pool", backend="pool"))
    for kind in ("runs", "violations", "known_issues", "metrics"):
        connected = read_table(tmp_path / "connect", kind)
        assert connected.equals(read_table(tmp_path / "pool", kind))


@pytest.mark.parametrize("url", ["sc://127.0.0.1:1"])
def test_a_connect_server_that_is_not_there_is_one_line(url: str, tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="the extra [connect] is not installed")
    program = (
        "import sys\n"
        "from rebalance_sim.spark import SweepError, SweepOptions, sweep\n"
        "try:\n"
        "    sweep(profile='calm', seeds='0:2', out=sys.argv[1],\n"
        "          options=SweepOptions(master=sys.argv[2], batch_size=1))\n"
        "except SweepError as problem:\n"
        "    print(problem)\n"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "out"), url],
        env=environment(tmp_path), capture_output=True, text=True, timeout=550,
    )  # fmt: skip
    assert re.fullmatch(f"no Spark Connect server at {url} .*\n", printed.stdout), printed.stderr
