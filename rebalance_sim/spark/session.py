"""The Spark session of a sweep: one that is there, the one of ``spark-submit``, one of a Connect
server, or one that the sweep starts and stops itself."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rebalance_sim.spark.errors import SparkSetupError
from rebalance_sim.spark.java import Java, find_java
from rebalance_sim.spark.launch import OF_WORKERS, launched_session
from rebalance_sim.spark.master import (
    CONNECT,
    check_master_answers,
    normalise_master,
    spark_defaults,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECT_MODULE = "pyspark.sql.connect.session"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSetup:
    """A Spark that can be tried. ``session``: one that runs already. ``java``: what to start one
    with; None where another starts it."""

    master: str
    java: Java | None = None
    session: Any = None
    settings: Mapping[str, str] | None = None


def check_setup(
    master: str | None,
    *,
    settings: Mapping[str, str] | None = None,
    session: Any = None,
) -> SparkSetup:
    """Find what Spark needs, in seconds and without starting it.

    ``session``: one to use. Raises SparkSetupError if there is no pyspark, no Java, no one at the
    master's address, or if a master or settings cannot apply any more.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise SparkSetupError(
            "pyspark is not installed: pip install 'rebalance-sim[spark]', "
            "or sweep with --backend pool"
        )
    with quiet():
        return _setup(master, settings, session)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without what pyspark says of its pandas functions, which a sweep does not use."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
        yield


def _setup(master: str | None, settings: Mapping[str, str] | None, session: Any) -> SparkSetup:
    session = session or _active_session()
    if session is not None:
        return _setup_of(session, master, settings or {})
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return SparkSetup(master=_submitted_master(master), settings=settings)
    master = master or os.environ.get("SPARK_REMOTE") or spark_defaults().get("spark.master")
    master = normalise_master(master)
    if master.startswith(CONNECT):
        _check_connect_client()
        check_master_answers(master)
        return SparkSetup(master=master, settings=settings)
    check_master_answers(master)
    return SparkSetup(master=master, java=find_java(), settings=settings)


@contextlib.contextmanager
def spark_session(setup: SparkSetup, *, log_file: Path) -> Iterator[SparkSession]:
    """The session of a setup. One that was there already is left running.

    Raises SparkSetupError.
    """
    settings = setup.settings or {}
    if setup.session is not None:
        yield setup.session
    elif setup.java is not None:
        with launched_session(
            setup.master, setup.java, log_file=log_file, settings=settings
        ) as session:
            yield session
    elif setup.master.startswith(CONNECT):
        with _connected_session(setup.master, settings) as session:
            yield session
    else:
        with _submitted_session(settings) as session:
            yield session


def is_connect(session: Any) -> bool:
    """Whether a session talks to a Connect server: it has no context, no RDDs and no JVM."""
    return type(session).__module__ == CONNECT_MODULE


def master_of(session: Any) -> str:
    """Where a session runs, to be shown."""
    if is_connect(session):
        return "a Spark Connect server"
    return str(session.sparkContext.master)


def _active_session() -> Any:
    """The session or context that is active in this process, if any."""
    module = sys.modules.get(CONNECT_MODULE)
    if module is not None:
        session = module.SparkSession.getActiveSession()
        if session is not None:
            return session
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context = SparkContext._active_spark_context
    return None if context is None else SparkSession(context)


def _setup_of(session: Any, master: str | None, settings: Mapping[str, str]) -> SparkSetup:
    where = master_of(session)
    if master is not None and (is_connect(session) or normalise_master(master) != where):
        raise SparkSetupError(
            f"a Spark session at {where} is active in this process: "
            "stop it, or leave the master out to use it"
        )
    for name, value in settings.items():
        if session.conf.get(name, None) != value:
            raise SparkSetupError(
                f"{name}={value} cannot apply, the Spark session at {where} runs already: "
                "set it where the session is made"
            )
    return SparkSetup(master=where, session=session)


def _submitted_master(master: str | None) -> str:
    """The master that ``spark-submit`` was given. Raises SparkSetupError if another is asked for.

    ``spark-submit`` has started the JVM, with this as one of its properties.
    """
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    submitted = SparkConf().get("spark.master") or "local[*]"
    if master is not None and master not in (submitted, normalise_master(submitted)):
        raise SparkSetupError(
            f"--master {master} cannot apply under spark-submit, which runs at {submitted}: "
            "give it to spark-submit"
        )
    return submitted


@contextlib.contextmanager
def _submitted_session(settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """All that was submitted stays; what a sweep likes to have is set only where nothing is."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    conf = SparkConf()
    for name, value in settings.items():
        if conf.get(name, value) != value:
            raise SparkSetupError(
                f"{name}={value} cannot apply, spark-submit has {conf.get(name)}: give it there"
            )
        conf.set(name, value)
    for name, value in {"spark.app.name": "rebalance-sim", **OF_WORKERS}.items():
        conf.setIfMissing(name, value)
    context = SparkContext(conf=conf)
    try:
        yield SparkSession(context)
    finally:
        context.stop()


def _check_connect_client() -> None:
    try:
        importlib.import_module(CONNECT_MODULE)
    except ImportError as problem:
        reason = str(problem).strip().splitlines()[0]
        raise SparkSetupError(
            f"no client for Spark Connect ({reason}): pip install 'rebalance-sim[connect]'"
        ) from problem


@contextlib.contextmanager
def _connected_session(url: str, settings: Mapping[str, str]) -> Iterator[Any]:
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    try:
        builder = ConnectSession.builder.remote(url)
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.version  # noqa: B018 - the first request: is anybody there?
    except Exception as problem:  # of gRPC, of the client or of the server
        reason = (str(problem).strip().splitlines() or [type(problem).__name__])[0]
        raise SparkSetupError(
            f"no Spark Connect server at {url} ({reason}): start it or correct --master"
        ) from problem
    try:
        yield session
    finally:
        session.stop()
