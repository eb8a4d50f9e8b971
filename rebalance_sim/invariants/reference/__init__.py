"""A reference in lock-step: a second machine beside each of a run, fed the same, compared decision
by decision. Off in ordinary runs; ``LockStep`` is what a world is given to have it."""
