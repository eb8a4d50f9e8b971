"""Ctrl-C while a process is forked."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_back() -> Iterator[None]:
    """A Ctrl-C in here counts when it is over.

    What modules have registered for a fork (``os.register_at_fork``; ``logging`` has) is called by
    the interpreter, which drops whatever is raised in it: a KeyboardInterrupt that comes just then
    is lost, and the sweep continues.
    """
    is_usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not is_usual or threading.current_thread() is not threading.main_thread():
        yield
        return
    came = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if came:
        raise KeyboardInterrupt
