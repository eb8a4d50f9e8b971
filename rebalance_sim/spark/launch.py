"""A Spark that the sweep starts itself: quiet, quick to start, and stopped at the end
(sweep §2, §10)."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rebalance_sim.spark.errors import SparkSetupError
from rebalance_sim.spark.java import Java
from rebalance_sim.spark.master import LOOPBACK, TASK_ATTEMPTS, is_on_loopback, spark_defaults

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

DRIVER_OPTIONS = "spark.driver.extraJavaOptions"

OF_WORKERS: Mapping[str, str] = {
    # 54 ms a task become 13: no delayed acknowledgements between JVM and worker.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.faulthandler.enabled": "true",
    "spark.executorEnv.OMP_NUM_THREADS": "1",
    "spark.executorEnv.OPENBLAS_NUM_THREADS": "1",
}
"""What a sweep sets wherever no one else has: it makes tasks cheap and changes no result."""

_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""


@contextlib.contextmanager
def launched_session(
    master: str, java: Java, *, log_file: Path, settings: Mapping[str, str]
) -> Iterator[SparkSession]:
    """Start Spark, hand out a session, and stop both session and JVM.

    What the JVM and its workers print goes to ``log_file``. ``settings`` win over
    ``spark-defaults.conf``, which wins over ours. Raises SparkSetupError.
    """
    from py4j.protocol import Py4JError
    from pyspark.sql import SparkSession

    log_file.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rebalance-sim-")))
        conf = _configuration(master, scratch, settings)
        interrupt = signal.getsignal(signal.SIGINT)
        with log_file.open("ab") as log, _environment(java, master, scratch):
            gateway = _launch(conf, log, java, log_file)
            stack.callback(_stop_jvm, gateway)
            context = _connect(conf, gateway, master, log_file)
            stack.callback(_stop_context, context)
        if threading.current_thread() is threading.main_thread():
            # Spark's own handler talks to the JVM in mid-call; the sweep cancels its job itself.
            signal.signal(signal.SIGINT, interrupt)
        try:
            yield SparkSession(context)
        except Py4JError as problem:
            # Among others, a master that takes the connection but does not answer ends here.
            raise SparkSetupError(
                f"the Spark session at {master} ended{_complaint(log_file)}: see {log_file}"
            ) from problem


def settings_of(
    master: str, scratch: Path, settings: Mapping[str, str], defaults: Mapping[str, str]
) -> dict[str, str]:
    """All that Spark is started with, by name: ours, then the installation's, then the user's.

    Java options of the driver are added to ours. They win, as the later of two; but a JVM takes
    only one garbage collector.
    """
    log4j = scratch / "log4j2.properties"
    ours = {
        "spark.app.name": "rebalance-sim",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.speculation": "false",
        "spark.task.maxFailures": str(TASK_ATTEMPTS),
        "spark.python.worker.reuse": "true",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        **OF_WORKERS,
    }
    if is_on_loopback(master):
        ours |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    chosen = {**ours, **defaults, **settings, "spark.master": master}
    extra = chosen.get(DRIVER_OPTIONS, "")
    options = [f"-Dlog4j2.configurationFile=file:{log4j}", "-XX:TieredStopAtLevel=1"]
    if not re.search(r"-XX:\+Use\w*GC\b", extra):
        options.append("-XX:+UseSerialGC")
    chosen[DRIVER_OPTIONS] = " ".join([*options, extra]).strip()
    return chosen


def _configuration(master: str, scratch: Path, settings: Mapping[str, str]) -> Any:
    from pyspark import SparkConf

    (scratch / "log4j2.properties").write_text(_LOG4J)
    chosen = settings_of(master, scratch, settings, spark_defaults())
    return SparkConf(loadDefaults=False).setAll(list(chosen.items()))


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
    from pyspark.sql import SparkSession

    # Notebooks and later sweeps must not find a session whose JVM is gone.
    SparkSession._instantiatedSession = None
    SparkSession._activeSession = None
    try:
        context.stop()
    except (Py4JError, OSError):
        context.stop()  # the JVM is gone; what is left to stop is on this side


def _stop_jvm(gateway: Any) -> None:
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    with contextlib.suppress(Py4JError, OSError):
        gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    SparkContext._gateway = SparkContext._jvm = None


@contextlib.contextmanager
def _environment(java: Java, master: str, scratch: Path) -> Iterator[None]:
    """The environment that the JVM is started with, and that its local workers inherit."""
    values = {"JAVA_HOME": str(java.java_home(scratch)), "PYTHONHASHSEED": "0"}
    if is_on_loopback(master):
        values["SPARK_LOCAL_IP"] = LOOPBACK
        for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
            values[name] = os.environ.get(name) or sys.executable
    saved = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in saved.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
