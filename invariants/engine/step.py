"""The former place of ``rebalance_sim.invariants.step``."""

from rebalance_sim.invariants.step import *  # noqa: F403
