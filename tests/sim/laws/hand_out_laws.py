"""Laws of what ``poll`` hands out. Each returns what violates it, in words."""

from __future__ import annotations

from lives import holdings, lives, told
from recording import Recording


def in_order_without_gaps(recording: Recording) -> list[str]:
    """Within one time with a partition records come in order, each once, from the position on that
    was looked up."""
    found = []
    for holding in holdings(recording):
        follows = holding.position
        for delivery in holding.handed_out:
            if delivery.start != follows or delivery.end <= delivery.start:
                found.append(f"{told(delivery)}, but stands at {follows}")
            follows = delivery.end
    return found


def only_to_who_may_fetch(recording: Recording) -> list[str]:
    """Records are handed out to a client only while it may fetch from their partition."""
    found = []
    of = lives(recording)
    for delivery in recording.deliveries:
        life = of[delivery.client, delivery.incarnation]
        seen = life.seen(delivery.since, delivery.until)
        if not any(delivery.partition in one.fetchable for one in seen):
            found.append(f"{told(delivery)}, but may not fetch from it")
    return found
