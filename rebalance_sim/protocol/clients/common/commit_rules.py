"""Decisions about offset commits that clients of all kinds have to make."""

from __future__ import annotations


class CommitRules:
    """What a correct client does, of whichever library and protocol."""

    names_topics_of_commits = False
    """A commit says a topic by its name, or by the id that the name stands for by now, and not by
    the id of the topic that was consumed (coordinator D13)."""

    def retries_commit(self, *, is_sync: bool) -> bool:
        """Whether a commit of the application that failed is tried again while its time lasts."""
        return is_sync

    repeats_overtaken_commits = False
    """A commit is repeated although a younger one of the same partitions has been sent since."""
