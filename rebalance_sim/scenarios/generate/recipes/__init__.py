"""Coincidences, a function each, discovered by import: what has to meet. A seed says when, and for
how long.

A function is handed a stream of its own, what there is, and a time. Faults beyond the fault phase
are left out; what has to be taken back is taken back within it.
"""
