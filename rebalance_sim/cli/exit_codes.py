"""What the exit code of every command means."""

OK = 0
FOUND = 1  # a violated property, a stuck group, a difference, or no verdict where one was due
BAD_INPUT = 2
CHANGED = 3  # of regress: every outcome is as before, some run took other steps
INTERRUPTED = 130
