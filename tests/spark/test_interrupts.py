"""A Ctrl-C that comes while a process is forked is not lost."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from rebalance_sim.spark.interrupts import held_back


@pytest.fixture(autouse=True)
def _usual(monkeypatch: pytest.MonkeyPatch) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_it_counts_when_it_is_over() -> None:
    seen = []
    with pytest.raises(KeyboardInterrupt), held_back():
        os.kill(os.getpid(), signal.SIGINT)
        seen.append("continues")
    assert seen == ["continues"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_without_one_nothing_happens() -> None:
    with held_back():
        pass


def test_what_is_raised_in_it_stays() -> None:
    with pytest.raises(OSError, match="no memory"), held_back():
        raise OSError("no memory")


def test_another_thread_leaves_signals_alone() -> None:
    before = []

    def fork() -> None:
        with held_back():
            before.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=fork)
    thread.start()
    thread.join()
    assert before == [signal.default_int_handler]
