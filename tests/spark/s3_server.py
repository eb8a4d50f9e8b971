"""An S3 server on the loopback: moto's, in a process of its own, with one bucket."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.fs

BUCKET = "results"
START_TIMEOUT_S = 60


@contextmanager
def s3_server(log: Path) -> Iterator[str]:
    """Start it; gives the URL of the bucket, by which any process on this machine can use it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with log.open("wb") as output:
        server = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        _wait_for(port, server, log)
        options = f"endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
        system, _ = pyarrow.fs.FileSystem.from_uri(
            f"s3://{BUCKET}?{options}&allow_bucket_creation=true"
        )
        system.create_dir(BUCKET)
        yield f"s3://{BUCKET}?{options}"
    finally:
        server.terminate()
        server.wait()


def inside(bucket: str, folder: str) -> str:
    """The URL of a folder in the bucket."""
    address, _, options = bucket.partition("?")
    return f"{address}/{folder}?{options}"


def _wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline_s and server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"the S3 server did not start:\n{log.read_text()[-2000:]}")


os.environ.setdefault("AWS_ACCESS_KEY_ID", "test")
os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "test")
