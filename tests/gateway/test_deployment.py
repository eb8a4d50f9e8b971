"""The container file and the workflow of the documentation do what they say."""

from __future__ import annotations

import os
import re
import resource
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
from frames import fetch_frame
from real_clients import command, consumer, read

from rebalance_sim.cli.main import invoke

ROOT = Path(__file__).parents[2]
CONTAINER = (ROOT / "Containerfile").read_text(encoding="utf-8")
WORKFLOW = (ROOT / "examples" / "ci" / "certify.yml").read_text(encoding="utf-8")


def instructions() -> dict[str, list[str]]:
    text = re.sub(r"\\\n\s*", "", "\n".join(r for r in CONTAINER.splitlines() if r[:1] != "#"))
    found: dict[str, list[str]] = {}
    for line in filter(None, text.splitlines()):
        name, _, rest = line.partition(" ")
        found.setdefault(name, []).append(rest)
    return found


def words(name: str) -> list[str]:
    (row,) = instructions()[name]
    return [word.strip('"') for word in row.strip("[]").split(", ")]


def test_every_file_that_the_container_copies_is_there_and_the_extra_too():
    for row in instructions()["COPY"]:
        for source in row.split()[:-1]:
            assert (ROOT / source).exists(), source
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (install,) = (row for row in instructions()["RUN"] if "pip install" in row)
    assert "[gateway]" in install
    assert "gateway" in project["optional-dependencies"]
    (image,) = instructions()["FROM"]
    assert f">={image.removeprefix('python:').removesuffix('-slim')}" == project["requires-python"]
    assert instructions()["USER"] == ["gateway"]
    assert instructions()["EXPOSE"] == [words("ENTRYPOINT")[-1]]


def test_what_the_container_runs_serves_clients_at_the_host_that_is_advertised():
    entry, default = words("ENTRYPOINT"), words("CMD")
    assert entry[0] == "rebalance-sim"
    # At any free port, and not for other machines.
    given = ["127.0.0.1" if w == "0.0.0.0" else "0" if w.isdecimal() else w for w in entry[1:]]
    start = "from rebalance_sim.cli.start import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", start, *given, *default, "--topic", "orders=4", "--records", "1"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    bootstrap = process.stdout.readline().strip()
    assert bootstrap.startswith("localhost:")

    class Broker:
        pass

    broker = Broker()
    broker.bootstrap = bootstrap  # type: ignore[attr-defined]
    client = consumer(broker, "consumer")  # type: ignore[arg-type]
    assert len(read([client], 4)) == 4
    client.close()
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


def entry_words() -> list[str]:
    """The command of the container, at any free port and not for other machines."""
    entry, default = words("ENTRYPOINT"), words("CMD")
    program = Path(sys.executable).with_name(entry[0])
    assert os.access(program, os.X_OK)
    given = ["127.0.0.1" if w == "0.0.0.0" else "0" if w.isdecimal() else w for w in entry[1:]]
    return [str(program), *given, *default, "--topic", "orders=4", "--records", "1000"]


def children_s() -> float:
    """Time of a core that processes took which were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


UNSHARE = ("unshare", "--pid", "--fork", "--mount-proc")


@pytest.mark.parametrize("prefix", [(), UNSHARE], ids=["as a process", "as the first process"])
def test_the_entry_point_ends_well_and_soon_after_sigterm_whatever_clients_do(prefix):
    if prefix and (not shutil.which(prefix[0]) or subprocess.run([*prefix, "true"]).returncode):
        pytest.skip("needs the right to make a namespace of processes")
    begun_s = children_s()
    process = subprocess.Popen(
        [*prefix, *entry_words()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    port = int(process.stdout.readline().strip().rpartition(":")[2])
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
    clients[0].sendall(b"\0\0\1\0half of a frame")
    clients[1].sendall(fetch_frame() * 500)  # It never reads the answers.
    time.sleep(0.3)
    server = process.pid
    if prefix:
        (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        server = int(child)
    row = Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()
    before_s = (int(row[11]) + int(row[12])) / os.sysconf("SC_CLK_TCK")
    os.kill(server, signal.SIGTERM)
    rest, errors = process.communicate(timeout=30)
    used_s = children_s() - begun_s
    assert used_s - before_s < 1  # Of a core: the machine may be busy.
    assert (process.returncode, rest, errors) == (0, "", "")


def test_the_workflow_is_that_of_the_page_and_its_command_runs(tmp_path, capsys):
    assert WORKFLOW in (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    assert "workflow_call" in WORKFLOW
    (line,) = (row for row in WORKFLOW.splitlines() if "rebalance-sim certify" in row)
    asked = line.partition("run: ")[2]
    declared = set(re.findall(r"^      (\w+): \{", WORKFLOW, re.M))
    used = set(re.findall(r"inputs\.(\w+)", WORKFLOW))
    assert used == declared
    values = {
        "$COMMAND": command("librdkafka", "consumer"),
        "$STATIC_COMMAND": command("librdkafka", "consumer", "{instance_id}"),
        "$SCENARIO": "static.restart",
        "certified": str(tmp_path),
    }
    given = [values.get(word, word) for word in shlex.split(asked)]
    assert invoke(given[1:]) == 0
    assert "1 held" in capsys.readouterr().out
    assert (tmp_path / "static.restart" / "trace.json").exists()
