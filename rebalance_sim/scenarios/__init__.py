"""What to run: scenarios, where they come from, and what a run of one says.

- ``Scenario``: one frozen value with everything a run depends on (``scenario.py``, ``codec.py``).
- ``Variant``: a profile, with another version or protocol if one is named (``variant.py``).
- ``generate``: a variant and a seed make a scenario (``profile.py``, ``profiles/``, ``generate/``).
- ``run``: a scenario makes a result (``runner.py``, ``result.py``).
- ``shrinking/``: the smallest scenario that still fails.
- ``compare.py``: the same scenario for another rebalance protocol.
- ``case_studies/``: the walk-throughs of KIP-848, replayed.
- ``defects/``: a scenario for each defect that can be switched on, in which it shows.
- ``known_issues/``: what groups of classic members do by themselves, each with a small scenario.
- ``ownership.py``, ``plots.py``: who owned what, and plots of it.

Nothing is imported from here: a command line that prints its help needs no world, and a worker of a
sweep draws nothing. ``rebalance_sim`` itself has the names for researchers.
"""
