"""Settings of the whole test suite.

Property tests draw the same examples in every run, so that a red build is red again on the next
machine. ``HYPOTHESIS_PROFILE=explore make test`` draws new ones, to look for what nobody has seen.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
