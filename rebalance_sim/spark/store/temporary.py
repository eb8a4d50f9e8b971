"""Names of objects that are being written, for stores that show them and can rename."""

from __future__ import annotations

import os
import re
import socket
import uuid

_NAME = re.compile(r"_tmp-(?P<host>.+)-(?P<pid>\d+)-[0-9a-f]{8}")
PREFIX = "_tmp-"
ABANDONED_S = 24 * 3600
"""A temporary object of another machine that is older than this has no writer any more."""


def temporary_name() -> str:
    """A name that no other writer has, and that says who this one is."""
    return f"{PREFIX}{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


def is_temporary(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def is_abandoned(name: str, age_s: float) -> bool:
    """Whether a temporary object of this name and age has no writer any more."""
    match = _NAME.fullmatch(name)
    if match is None:
        return False
    if match["host"] == socket.gethostname():
        return not _is_alive(int(match["pid"]))
    return age_s > ABANDONED_S


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
