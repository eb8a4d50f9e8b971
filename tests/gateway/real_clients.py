"""Consumers of real libraries, in processes of their own and in this one."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from rebalance_sim import Gateway
from rebalance_sim.conformance.record.jars import default_jars

CLIENTS = Path(__file__).parents[2] / "examples" / "clients"
COORDINATOR = {
    "group_consumer_session_timeout_ms": 6_000,
    "group_consumer_min_session_timeout_ms": 1_000,
    "group_consumer_heartbeat_interval_ms": 200,
    "group_consumer_min_heartbeat_interval_ms": 100,
    "group_initial_rebalance_delay_ms": 0,
}
DEADLINE_S = 30.0


def gateway(**keys: Any) -> Gateway:
    """A gateway with a topic of four partitions, and short intervals."""
    return Gateway(**{"topics": {"orders": 4}, "coordinator": COORDINATOR, **keys})


def consumer(broker: Gateway, protocol: str, **more: Any) -> confluent_kafka.Consumer:
    """A consumer of librdkafka that has subscribed."""
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": "g",
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "log_level": 0,
        "topic.metadata.refresh.interval.ms": 500,
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    if protocol == "classic":
        settings |= {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 300}
    made = confluent_kafka.Consumer(settings)
    made.subscribe(["orders"])
    return made


def read(consumers: Iterable[confluent_kafka.Consumer], count: int) -> set[bytes]:
    """Poll until so many different records were read, and commit them."""
    seen: set[bytes] = set()

    def poll() -> bool:
        for one in consumers:
            message = one.poll(0.05)
            value = None if message is None or message.error() else message.value()
            if message is not None and value is not None:
                seen.add(value)
                one.commit(message=message, asynchronous=True)
        return len(seen) >= count

    until(poll)
    return seen


def share(consumers: list[confluent_kafka.Consumer], *counts: int) -> None:
    """Poll until the consumers have so many partitions each."""

    def poll() -> bool:
        for one in consumers:
            one.poll(0.05)
        return sorted(len(one.assignment()) for one in consumers) == sorted(counts)

    until(poll)


def until(holds: Callable[[], bool]) -> None:
    """Wait for something. Raises AssertionError after ``DEADLINE_S``."""
    end = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def java_command(folder: Path) -> str:
    """That of Java's client, compiled into this folder. Skips the test without a JDK or jars."""
    javac, jars = shutil.which("javac"), default_jars("4.3.1")
    if javac is None or not jars.exists():
        pytest.skip("needs a JDK, and the jars that `rebalance-sim record --version 4.3.1` fetches")
    _build([javac, "-cp", f"{jars}/*", "-d", str(folder), str(CLIENTS / "Client.java")])
    # A JVM that starts soon, as there are many of them.
    options = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    return f"java {options} -cp '{folder}:{jars}/*' Client {{bootstrap}} {{group}} {{topic}}"


def franz_command(folder: Path) -> str:
    """That of franz-go, built into this folder. Skips the test without Go or its modules."""
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        pytest.skip("needs Go")
    source = CLIENTS / "franz"
    _build([go, "build", "-C", str(source), "-o", str(folder / "franz"), "."])
    return f"{folder / 'franz'} {{bootstrap}} {{group}} {{topic}}"


def _build(words: list[str]) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        missing = [line for line in said if "dial tcp" in line or "proxy" in line]
        if missing:
            pytest.skip(f"needs modules that cannot be fetched: {missing[0]}")
        raise AssertionError("\n".join(said))


def command(library: str, *more: str) -> str:
    """The command that starts a consumer of the examples."""
    words = (sys.executable, str(CLIENTS / f"{library}.py"), "{bootstrap}", "{group}", "{topic}")
    return " ".join((*words, *more))
