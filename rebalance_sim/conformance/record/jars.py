"""The jars of a broker, from Maven Central."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from rebalance_sim.conformance.record.errors import RecordError

_POM = Path(__file__).with_name("pom.xml")
_VERSION = re.compile(r"\d+\.\d+\.\d+(-[A-Za-z0-9.]+)?")


def default_jars(version: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Where the jars of a version are kept: in the user's cache."""
    cache = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME", "~")).expanduser() / ".cache"
    return Path(cache) / "rebalance-sim" / f"kafka-{version}"


def need_jars(version: str, folder: Path) -> None:
    """Fetch the jars of a version into the folder, unless they are there.

    Raises RecordError if they are those of another version, or cannot be fetched.
    """
    if not _VERSION.fullmatch(version):
        raise RecordError(f"--version {version}: give a version of Kafka, such as 4.4.0")
    if (folder / f"kafka-clients-{version}.jar").exists():
        return
    if any(folder.glob("*.jar")):
        raise RecordError(
            f"--jars {folder} has no kafka-clients-{version}.jar: give another folder"
        )
    mvn = shutil.which("mvn")
    if mvn is None:
        raise RecordError(
            f"the jars of Kafka {version} are not in {folder}, and there is no mvn to fetch them "
            "with: install Apache Maven, or give a folder with --jars"
        )
    _fetch(mvn, version, folder)


def _fetch(mvn: str, version: str, folder: Path) -> None:
    """Into a folder beside it first: half a set of jars would be taken for a whole one."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetch-") as scratch:
            jars = Path(scratch) / "jars"
            arguments = (f"-Dkafka.version={version}", "dependency:copy-dependencies")
            fetched = subprocess.run(
                [mvn, "-q", "-B", "-f", _POM, *arguments, f"-DoutputDirectory={jars}"],
                capture_output=True,
                text=True,
            )
            if fetched.returncode:
                said = next((line for line in fetched.stdout.splitlines() if "ERROR" in line), "")
                raise RecordError(f"mvn cannot fetch Kafka {version}: {said[:300]}")
            if folder.exists():
                folder.rmdir()
            jars.rename(folder)
    except OSError as problem:
        raise RecordError(
            f"cannot keep jars in {folder} ({problem.strerror}): give another folder with --jars"
        ) from problem
