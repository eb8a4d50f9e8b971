"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["ProfileName", "Seed"]

_SEED_MAX = 2**63 - 1

ProfileName = Annotated[str, typer.Option("--profile", "-p", help="Kind of scenario.")]
Seed = Annotated[int, typer.Option("--seed", "-s", min=0, max=_SEED_MAX, help="Seed of the run.")]
