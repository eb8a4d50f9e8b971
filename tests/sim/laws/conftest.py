"""Laws are about the recordings from which figures are computed a second time."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "figures"))
