"""Mutants of what ends a generation of a classic group, and of what static members that return are
told; they exist in these tests only."""

from __future__ import annotations

from falsified_classic import FALSIFIED

__all__ = ["FALSIFIED"]
