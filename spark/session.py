"""A quiet Spark context, on this machine or on a cluster (sweep §2, §10)."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import signal
import socket
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rebalance_sim.spark.errors import SparkSetupError
from rebalance_sim.spark.java import Java, find_java

if TYPE_CHECKING:
    from pyspark import SparkContext

LOOPBACK = "127.0.0.1"
TASK_ATTEMPTS = 4
CONNECT_TIMEOUT_S = 5.0
MASTER_KINDS = ("local[", "local-cluster[", "spark://", "k8s://", "yarn")

_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""


def normalise_master(master: str | None) -> str:
    """The master URL to use: by default every core; ``local`` ones get task retries."""
    master = master or "local[*]"
    match = re.fullmatch(r"local(?:\[(\d+|\*)\])?", master)
    if match is None and not master.startswith(MASTER_KINDS):
        raise SparkSetupError(
            f"Spark master {master!r}: write local[4], spark://host:port, k8s://... or yarn"
        )
    if match is None:
        return master
    cores = match.group(1) or "1"
    count = str(len(os.sched_getaffinity(0))) if cores == "*" else cores
    return f"local[{count},{TASK_ATTEMPTS}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSetup:
    """A master that can be tried, and the Java to try it with; no Java if Spark runs already."""

    master: str
    java: Java | None


def check_setup(master: str | None) -> SparkSetup:
    """Find what Spark needs, in seconds and without starting it.

    Raises SparkSetupError if there is no pyspark, no Java, or nobody at the master's address.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise SparkSetupError(
            "pyspark is not installed: pip install 'rebalance-sim[spark]', "
            "or sweep with --backend pool"
        )
    running = _active_context()
    if running is not None:
        if master is not None and normalise_master(master) != running.master:
            raise SparkSetupError(
                f"a Spark context at {running.master} is active in this process: "
                "stop it, or leave the master out to use it"
            )
        return SparkSetup(master=str(running.master), java=None)
    master = normalise_master(master)
    _check_master_answers(master)
    return SparkSetup(master=master, java=find_java())


@contextlib.contextmanager
def spark_context(
    setup: SparkSetup, *, log_file: Path, settings: Mapping[str, str] | None = None
) -> Iterator[SparkContext]:
    """Start Spark, hand out its context, and stop both context and JVM.

    What the JVM and its workers print goes to ``log_file``. ``settings`` are Spark's own, as in
    ``{"spark.executor.memory": "2g"}``, and win over ours. A context that is active already is
    handed out as it is and left running. Raises SparkSetupError.
    """
    running = _active_context()
    if running is not None:
        yield running
        return
    from py4j.protocol import Py4JError

    java = setup.java or find_java()
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rebalance-sim-")))
        conf = _configuration(setup.master, scratch, settings or {})
        interrupt = signal.getsignal(signal.SIGINT)
        with log_file.open("ab") as log, _environment(java, setup.master, scratch):
            gateway = _launch(conf, log, java, log_file)
            stack.callback(_stop_jvm, gateway)
            context = _connect(conf, gateway, setup.master, log_file)
            stack.callback(_stop_context, context)
        if threading.current_thread() is threading.main_thread():
            # Spark's own handler talks to the JVM in mid-call; the sweep cancels its job itself.
            signal.signal(signal.SIGINT, interrupt)
        try:
            yield context
        except Py4JError as problem:
            # Among others, a master that takes the connection but does not answer ends here.
            raise SparkSetupError(
                f"the Spark session at {setup.master} ended{_complaint(log_file)}: see {log_file}"
            ) from problem


def _active_context() -> SparkContext | None:
    from pyspark import SparkContext

    return SparkContext._active_spark_context


def _configuration(master: str, scratch: Path, settings: Mapping[str, str]) -> Any:
    from pyspark import SparkConf

    log4j = scratch / "log4j2.properties"
    log4j.write_text(_LOG4J)
    values = {
        "spark.app.name": "rebalance-sim",
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.speculation": "false",
        "spark.task.maxFailures": str(TASK_ATTEMPTS),
        # 54 ms a task become 13: no delayed acknowledgements between JVM and worker.
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.worker.reuse": "true",
        "spark.python.worker.faulthandler.enabled": "true",
        "spark.executorEnv.OMP_NUM_THREADS": "1",
        "spark.executorEnv.OPENBLAS_NUM_THREADS": "1",
        "spark.driver.extraJavaOptions": (
            f"-Dlog4j2.configurationFile=file:{log4j} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        ),
    }
    if _is_on_loopback(master):
        values |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    return SparkConf(loadDefaults=False).setAll(list((values | dict(settings)).items()))


def _launch(conf: Any, log: Any, java: Java, log_file: Path) -> Any:
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    SparkContext._gateway = SparkContext._jvm = None  # left over from an earlier session
    try:
        return launch_gateway(  # type: ignore[no-untyped-call]
            conf, popen_kwargs={"stdout": log, "stderr": log}
        )
    except PySparkRuntimeError as problem:
        raise SparkSetupError(
            f"Spark did not start with {java}{_complaint(log_file)}: see {log_file}"
        ) from problem


def _connect(conf: Any, gateway: Any, master: str, log_file: Path) -> SparkContext:
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    try:
        return SparkContext(conf=conf, gateway=gateway)
    except Py4JError as problem:
        raise SparkSetupError(
            f"Spark cannot use the master {master}{_complaint(log_file)}: "
            f"check --master, and see {log_file}"
        ) from problem


def _complaint(log_file: Path) -> str:
    """What the JVM said last of an exception, to be put behind a sentence; empty if nothing."""
    text = log_file.read_text(encoding="utf-8", errors="replace")
    found = re.findall(r"(?:Exception|Error|Reason): (.+)", text)
    return f" ({found[-1].strip()})" if found else ""


def _stop_context(context: SparkContext) -> None:
    from py4j.protocol import Py4JError

    try:
        context.stop()
    except (Py4JError, OSError):
        context.stop()  # the JVM is gone; what is left to stop is on this side


def _stop_jvm(gateway: Any) -> None:
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    with contextlib.suppress(Py4JError, OSError):
        gateway.shutdown()
    if gateway.proc is not None:  # None where spark-submit started the JVM
        gateway.proc.stdin.close()
        gateway.proc.wait()
    SparkContext._gateway = SparkContext._jvm = None


@contextlib.contextmanager
def _environment(java: Java, master: str, scratch: Path) -> Iterator[None]:
    """The environment that the JVM is started with, and that its local workers inherit."""
    values = {"JAVA_HOME": str(java.java_home(scratch)), "PYTHONHASHSEED": "0"}
    if _is_on_loopback(master):
        values["SPARK_LOCAL_IP"] = LOOPBACK
        values["PYSPARK_PYTHON"] = values["PYSPARK_DRIVER_PYTHON"] = sys.executable
    saved = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
            yield
    finally:
        for name, value in saved.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _is_on_loopback(master: str) -> bool:
    """Whether everything happens on this machine, so that no port need be open to others."""
    addresses = _master_addresses(master)
    return master.startswith("local") or (
        bool(addresses) and all(host in (LOOPBACK, "localhost") for host, _ in addresses)
    )


def _master_addresses(master: str) -> list[tuple[str, int]]:
    """Hosts and ports of a standalone master (there may be standby ones); [] for other kinds."""
    if not master.startswith("spark://"):
        return []
    pairs = (address.rpartition(":") for address in master.removeprefix("spark://").split(","))
    try:
        return [(host, int(port)) for host, _, port in pairs]
    except ValueError:
        raise SparkSetupError(f"Spark master {master}: write spark://host:port") from None


def _check_master_answers(master: str) -> None:
    """Fail in seconds where Spark would try for a minute."""
    addresses = _master_addresses(master)
    problems = []
    for host, port in addresses:
        try:
            socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S).close()
            return
        except (OSError, OverflowError) as problem:
            problems.append(str(problem))
    if addresses:
        raise SparkSetupError(
            f"no Spark master at {master} ({'; '.join(problems)}): start it or correct --master"
        )
