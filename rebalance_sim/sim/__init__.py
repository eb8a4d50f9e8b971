"""The simulated world in which pure coordinators and members live.

Read in this order:

- ``spec``: what a world is made of; each folder has its own part of it (``client_spec``).
- ``world``: ``World``, which puts the parts together, runs them, and has the result. A folder
  takes what it needs through ``ports`` and ``environment`` modules; none imports ``world``.
- ``clock``, ``streams``: simulated time on SimPy, and named random streams.
- ``network``: TCP connections, and what clients ask of any broker.
- ``broker``: brokers, their controller, replicas and coordinator shards.
- ``client``: processes around a member: application, connections, supervisor.
- ``group``: what belongs to one of several groups; brokers, topics and network are shared.
- ``faults``: what can happen to a world, one module each; ``injector`` begins and ends them.
- ``admin``: topics, settings, and who asks coordinators about groups.
- ``data_plane``: where partitions end, and how records flow to applications.
- ``steps``: every atomic change, shown to ``trace`` and to ``observe``: metrics, coverage, series,
  and the checkers of each group.

What is left out stands in ``docs/boundary.md``: authorisation, request handler
queues.
"""
