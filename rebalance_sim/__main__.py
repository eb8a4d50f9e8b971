"""``python -m rebalance_sim`` is the command ``rebalance-sim``."""

from rebalance_sim.cli.main import main

if __name__ == "__main__":
    main()
