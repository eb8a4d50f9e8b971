"""Laws of what ``poll`` hands out. Each returns what violates it, in words."""

from __future__ import annotations

from collections import defaultdict

from lives import holdings, lives, told
from recording import ClientSeen, Delivery, Recording

from rebalance_sim.protocol.clients.common.effects import RunCallback
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.values import CallbackKind
from rebalance_sim.protocol.clients.kinds import JAVA

GIVEN_UP = (CallbackKind.REVOKED, CallbackKind.LOST)


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
        seen = of[delivery.client, delivery.incarnation].seen(delivery.since, delivery.until)
        may_fetch = any(delivery.partition in one.fetchable for one in seen)
        if not may_fetch and not hands_out_revoked(recording, seen, delivery):
            found.append(f"{told(delivery)}, but may not fetch from it")
    return found


def hands_out_revoked(recording: Recording, seen: list[ClientSeen], delivery: Delivery) -> bool:
    """KAFKA-20332: the Java consumer before 4.3 hands out what it had buffered of a partition that
    it is about to revoke."""
    is_old = recording.spec.semantics == "kafka-4.1" and seen[-1].spec.kind == JAVA
    return is_old and all(delivery.partition in one.held for one in seen)


def nothing_after_it_is_told_of_a_loss(recording: Recording) -> list[str]:
    """From the beginning of onPartitionsRevoked or onPartitionsLost on, nothing more is handed out
    in that time with the partition."""
    given_up: dict[tuple[int, object], int] = {}
    for at, moment in enumerate(recording.moments):
        for effect in moment.effects:
            if isinstance(effect, RunCallback) and effect.kind in GIVEN_UP:
                assert moment.client is not None
                for partition in effect.partitions & moment.client.held.keys():
                    given_up[moment.client.held[partition].number, partition] = at
    return [
        f"{told(delivery)}, which it gave up at {recording.moments[at].at_ms} ms"
        for delivery in recording.deliveries
        for at in [given_up.get((delivery.held, delivery.partition))]
        if at is not None and delivery.since > at
    ]


def nothing_before_it_is_told_of_a_loss(recording: Recording) -> list[str]:
    """A client that is back after ``max.poll.interval.ms`` hands out nothing before it has told
    its application, unless it is still looking for its coordinator."""
    of = lives(recording)
    return [
        f"{told(delivery)}, but was away for too long"
        for delivery in recording.deliveries
        if all(
            one.state == ClientState.STALE.value and one.is_polling and one.knows_coordinator
            for one in of[delivery.client, delivery.incarnation].seen(
                delivery.since, delivery.until
            )
        )
    ]


def no_more_than_max_poll_records(recording: Recording) -> list[str]:
    """An application without workers is handed at most ``max_poll_records`` at once, and in any
    time so many more for each time that it may be away in it. One whose full batch outlasts that is
    handed so many more as it can process: all batches but the last one, short ones too, are
    processed before that is handed out.

    What is handed out is counted in parts of a record, in shares that may change in the middle of a
    batch, so each partition may be a record off at either end; and a batch lasts for whole
    milliseconds, so each may have what is done in one of them too many.
    """
    found = []
    of = lives(recording)
    at_once: dict[tuple[str, int, int, int], list[Delivery]] = defaultdict(list)
    for one in recording.deliveries:
        at_once[one.client, one.incarnation, one.since_ms, one.at_ms].append(one)
    for (*process, since_ms, at_ms), deliveries in at_once.items():
        spec = of[deliveries[0].client, deliveries[0].incarnation].moments[0][2].spec
        rate, most = spec.processing_records_per_second, spec.max_poll_records
        if not recording.spec.data_plane or spec.workers is not None:
            continue
        span_ms = at_ms - since_ms
        batch_ms = most * 1_000 // rate if rate else 0
        twice_away_ms = spec.processing_ms + (spec.processing_max_ms or spec.processing_ms)
        if rate and batch_ms > spec.processing_ms:
            batches = span_ms // batch_ms + 2
            more = span_ms * rate // 1_000 + batches * max(1, rate // 1_000)
        elif twice_away_ms:
            more = 2 * span_ms * most // twice_away_ms
        else:
            continue
        room = most + more + 2 * len(deliveries)
        total = sum(one.end - one.start for one in deliveries)
        if total > room:
            found.append(f"{at_ms} ms: {process} is handed {total}, not {room} since {since_ms} ms")
    return found
