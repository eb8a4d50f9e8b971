"""The version of the code is a digest of what a result depends on."""

from __future__ import annotations

import hashlib
from pathlib import Path

from rebalance_sim import protocol
from rebalance_sim.scenarios.version import code_version

ROOT = Path(protocol.__file__).parent.parent


def test_it_is_the_digest_of_the_sources_that_take_part_in_a_run() -> None:
    engine = ROOT / "re2_engine.py"
    digest = hashlib.blake2b(b"re2_engine.py\n" + engine.read_bytes(), digest_size=6)
    for package in ("protocol", "invariants", "sim", "scenarios"):
        paths = [p for p in (ROOT / package).rglob("*") if p.suffix in (".py", ".toml")]
        for path in sorted(paths, key=lambda p: p.relative_to(ROOT).parts):
            digest.update(f"{path.relative_to(ROOT).as_posix()}\n".encode())
            digest.update(path.read_bytes())
    assert code_version() == digest.hexdigest()
