"""Run the peer tests without pytest: one line per failing case, ``peer tests N/M`` last.

``run.py [--table] [--not-expressible] [-v] [part of a name ...]``. Exit code 1 if a case fails that is not among the explained differences.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from peer import BOOK, brief, row_files  # noqa: E402


def main(arguments: list[str]) -> int:
    wanted = [a for a in arguments if not a.startswith("-")]
    for name in row_files():
        importlib.import_module(name)
    passed = failed = explained = 0
    by_class: dict[str, Counter] = {}
    for each in BOOK.cases:
        if wanted and not any(w in each.name for w in wanted):
            continue
        count = by_class.setdefault(each.cls, Counter())
        count["tried"] += 1
        try:
            each.run()
        except Exception as error:
            why = BOOK.explained.get(each.name)
            if why is None:
                failed += 1
                count["failed"] += 1
                print(f"FAIL {each.name}: {brief(error)}")
                if "-v" in arguments:
                    traceback.print_exception(error)
            else:
                explained += 1
                count["explained"] += 1
                print(f"explained {each.name}: {why}")
        else:
            passed += 1
            count["passed"] += 1
            if each.name in BOOK.explained:
                print(f"note: {each.name} passes, but stands among the explained differences")
    for cls, _, _ in BOOK.not_expressible:
        by_class.setdefault(cls, Counter())["not expressible"] += 1
    if "--table" in arguments:
        for cls, count in sorted(by_class.items()):
            keys = ("tried", "passed", "explained", "failed", "not expressible")
            print(f"{cls:48}" + " ".join(f"{k} {count[k]:3}" for k in keys))
    if "--not-expressible" in arguments:
        for cls, method, why in BOOK.not_expressible:
            print(f"not expressible {cls}.{method}: {why}")
    total = passed + failed + explained
    print(f"explained differences {explained}, not expressible {len(BOOK.not_expressible)}")
    print(f"peer tests {passed}/{total}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
