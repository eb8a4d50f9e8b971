"""The simulated world in which pure coordinators and members live.

Read in this order:

- ``spec``, ``faults``: what a world is made of, and what can happen to it; plain values.
- ``world``: ``World``, which holds everything, and its result.
- ``clock``, ``streams``: simulated time on SimPy, and named random streams.
- ``network``: TCP connections. ``messages``: what clients ask of any broker.
- ``controller``, ``registration``, ``broker``: elections, in-sync replicas, and who hears of them.
- ``replica``, ``replication``, ``log``: a broker's replica of each partition of
  ``__consumer_offsets``, and its high watermark.
- ``shard_host``: a coordinator on a broker; load, timers, answers that wait for their commit.
- ``admin_client``: describes and lists groups. ``settings``,
  ``admin_tasks``: what administrators alter, and ask of coordinators.
- ``group``: what belongs to one of several groups; brokers, topics and network are shared.
- ``client``, ``application``, ``client_lines``, ``client_conditions``, ``fleet``: processes around
  a member.
- ``injector``: makes faults happen. ``topics``, ``records``: topics, and where partitions end.
- ``steps``: every atomic change, shown to ``trace``, ``metrics``, ``coverage`` and, by
  ``routing``, to checkers.
- ``sampling``, ``probes``: series, read between steps. ``coordinator_metrics``: what a broker
  publishes. ``epoch_delays``: how long group epochs wait for their target and their members.

What is left out: transactions, quotas and throttling, authorisation, unclean elections, log
segments, request handler queues.
"""
