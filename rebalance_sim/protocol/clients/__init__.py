"""A member of a group, as the client sees it: a pure machine from events to effects.

- ``common``: what all kinds share. ``group_member`` is what a member is to its host: start reading
  there; ``events`` and ``effects`` are what goes in and comes out, ``requests`` is the life of a
  request, ``commit_queue`` what all commits have alike.
- ``java``, ``librdkafka``: the libraries; in each, what both protocols share, and a package for
  ``consumer`` and for ``classic``.
- ``kinds``: the table of kinds.

Sources of all rules: docs/reference/consumer-client.md and, of the classic protocol,
docs/reference/classic-group-and-migration.md.
"""
