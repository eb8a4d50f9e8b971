"""A search that learns: it keeps scenarios that reached something new, and changes them.

``pairs`` says which pairs a run has visited, ``evaluation`` runs a scenario and judges it,
``mutators`` make a scenario of others, and ``hunt`` picks what is run next. Nothing here reads a
clock or a file: what a hunt does follows from its plan.
"""
