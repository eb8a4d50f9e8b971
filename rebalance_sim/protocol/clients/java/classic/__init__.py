"""kafka-clients 4.3.1 with ``group.protocol=classic``.

- ``java_classic``: ``ClassicConsumer``, the machine. Start reading there.
- ``classic_member_states``: its states and the table of legal changes.
- ``reactions``: the one table of errors.
- ``client_rebalance``, ``prepare``, ``joining``, ``classic_heartbeats``, ``classic_commits``,
  ``classic_search``, ``classic_closing``: its parts.
- ``classic_member_rules``: the decisions in which defects differ.

What it has in common with the consumer protocol of the same client stands in ``clients/java``.
Source of all rules: classic §3, §4, §6.
"""
