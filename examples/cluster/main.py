"""What ``spark-submit`` starts: the command line of rebalance-sim, on the cluster it was given.

    spark-submit --master yarn --deploy-mode cluster main.py \
        sweep --profile faulty --seeds 0:100000 --out s3://bucket/faulty

Everything behind ``main.py`` is as after ``rebalance-sim``; see docs/cluster.md.
"""

from rebalance_sim.cli.main import main

if __name__ == "__main__":
    main()
