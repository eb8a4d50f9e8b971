"""The regular expression engine of real coordinators, for the pure core: RE2.

Brokers use RE2/J; this is Google's RE2, the same syntax. The two word their complaints differently;
the reasons below are RE2/J's, as Apache Kafka 4.3.1 answers them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import lru_cache

import re2

__all__ = ["compile_re2", "covers"]

_REASONS_OF_RE2J = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "unexpected )": "regexp/syntax: internal error",
    "duplicate capture group name": "duplicate capture group name",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid character class range": "invalid character class range",
    "invalid escape sequence": "invalid escape sequence",
    "invalid perl operator": "invalid or unsupported Perl syntax",
}


@lru_cache(maxsize=1024)
def compile_re2(pattern: str) -> Callable[[str], bool]:
    """A test whether a whole topic name matches. Raises ValueError for a bad pattern."""
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        raise ValueError(_reason(error)) from error
    return lambda name: compiled.fullmatch(name) is not None


def covers(topic_names: Collection[str], topic_regex: str | None, topic_name: str) -> bool:
    """Whether a subscription to these names, or by this pattern, is one to the topic. Raises
    ValueError for a bad pattern."""
    return topic_name in topic_names or (
        topic_regex is not None and compile_re2(topic_regex)(topic_name)
    )


def _reason(error: Exception) -> str:
    text = error.args[0]
    if isinstance(text, bytes):
        text = text.decode()
    kind, _, detail = text.partition(": ")
    return _REASONS_OF_RE2J.get(kind, f"{kind}: {detail}" if detail else kind)
