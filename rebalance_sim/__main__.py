"""``python -m rebalance_sim`` is the command ``rebalance-sim``."""

from rebalance_sim.cli.start import main

if __name__ == "__main__":
    main()
