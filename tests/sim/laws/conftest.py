"""Laws are about the recordings from which figures are computed a second time, and about small
worlds as the tests of the simulator build them."""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = Path(__file__).parent

sys.path[:0] = [str(FOLDER.parent / "figures"), str(FOLDER.parent)]
