"""Figures of rebalances, from the definition of an episode in docs/results.md."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil

from counts import AT_REST, StepOfGroup, before_and_after, rises
from owners import Owned, consumers, ends_process, ownership, partitions_of, spans
from recording import ClientSeen, GroupSeen, Moment, PartitionLife, Recording

from rebalance_sim.invariants.step import StepKind

BUSY = ("RECONCILING", "ACKNOWLEDGING")
MEMBERSHIP = frozenset(
    ["SendHeartbeat", "SendClassicHeartbeat", "SendJoinGroup", "SendSyncGroup", "SendLeaveGroup"]
)


@dataclass
class Episode:
    """A rebalance of a group: the steps that it begins and ends with (None: it has not ended).

    ``unsettled``: when its coordinator rebalanced. ``staying``: clients in the group at the end,
    with what they subscribe to.
    """

    begin: int
    from_ms: int
    end: int | None = None
    to_ms: int = 0
    unsettled: list[tuple[int, int]] = field(default_factory=list)
    staying: dict[str, object] = field(default_factory=dict)


def acts_for_group(steps: list[StepOfGroup]) -> dict[int, StepOfGroup]:
    """What acting coordinators have done, by index; the steps of those replaced are left out."""
    found: dict[int, StepOfGroup] = {}
    leader_epoch = -1
    for step in steps:
        index, moment, group_id, before, after = step
        shard = moment.shard
        assert shard is not None
        if shard.leader_epoch < leader_epoch or group_id not in shard.groups:
            continue
        if moment.kind is not StepKind.COORDINATOR_LOADED and not concerns(moment, before, after):
            continue
        leader_epoch = shard.leader_epoch
        found[index] = step
    return found


def concerns(moment: Moment, before: GroupSeen | None, after: GroupSeen | None) -> bool:
    """Whether a step has done anything to the group."""
    return before != after or bool(moment.records)


def begins_rebalance(step: StepOfGroup, rising: set[int]) -> bool:
    """A classic group enters PreparingRebalance, or the epoch of a consumer group rises."""
    index, moment, _, before, after = step
    if moment.kind is StepKind.COORDINATOR_LOADED:
        return False
    if index in rising:
        return True
    if after is None or after.type != "classic":
        return False
    was_preparing = before is not None and before.state == "PreparingRebalance"
    # That of a group that is converted continues from its epoch; one without members is replaced.
    generation = 0
    if before is not None and (before.type == "classic" or before.members):
        generation = before.epoch
    if after.state == "PreparingRebalance":
        return not was_preparing or after.epoch > generation
    return after.epoch > generation and not was_preparing


def episodes(recording: Recording, group_id: str) -> list[Episode]:
    """Every episode of a group, in order."""
    found: list[Episode] = []
    steps = [step for step in before_and_after(recording) if step[2] == group_id]
    acts = acts_for_group(steps)
    rising = {index for index, _, of_group, _ in rises(recording) if of_group == group_id}
    clients: dict[str, ClientSeen] = {}
    present: Episode | None = None
    unsettled_ms: int | None = None
    seen: GroupSeen | None = None
    for index, moment in enumerate(recording.moments):
        client = moment.client
        if client is not None and client.group_id == group_id:
            clients[client.name] = client
            if ends_process(moment):
                del clients[client.name]
        elif index in acts:
            seen = acts[index][4]
            if begins_rebalance(acts[index], rising):
                if present is None:
                    present = Episode(index, moment.at_ms)
                    found.append(present)
                if unsettled_ms is None:
                    unsettled_ms = moment.at_ms
            if unsettled_ms is not None and (seen is None or seen.state in AT_REST):
                assert present is not None
                present.unsettled.append((unsettled_ms, moment.at_ms))
                unsettled_ms = None
        else:
            continue
        if present is not None and unsettled_ms is None and at_rest(clients, seen):
            present.end, present.to_ms = index, moment.at_ms
            present.staying = {c.name: c.subscription for c in clients.values() if c.is_member}
            present = None
    return found


def at_rest(clients: dict[str, ClientSeen], seen: GroupSeen | None) -> bool:
    """Every member knows of the last epoch, and none of them is busy with it."""
    members = frozenset() if seen is None else seen.members
    epoch = 0 if seen is None else seen.epoch
    return not any(
        client.state in BUSY
        or (client.member_id in members and client.is_in_group and client.member_epoch < epoch)
        for client in clients.values()
    )


def episode_figures(recording: Recording) -> dict[str, float]:
    """The figures of all groups together."""
    lengths: list[int] = []
    unsettled: list[int] = []
    open_count = requests = unowned_ms = partition_ms = moved = needed = 0
    for group_id in recording.spec.group_ids:
        found = episodes(recording, group_id)
        changes = ownership(recording, group_id)
        lives = partitions_of(recording, group_id)
        for number, episode in enumerate(found):
            last = len(recording.moments) if episode.end is None else episode.end
            requests += requests_sent(recording, group_id, episode.begin, last)
            unsettled += [to_ms - from_ms for from_ms, to_ms in episode.unsettled]
            if episode.end is None:
                open_count += 1
                continue
            lengths.append(episode.to_ms - episode.from_ms)
            for life in lives:
                partition_ms += overlap_ms(life.from_ms, life.to_ms, episode)
                for span in spans(life, changes):
                    if not span.owners:
                        unowned_ms += overlap_ms(span.from_ms, span.to_ms, episode)
            until = found[number + 1].begin if number + 1 < len(found) else len(recording.moments)
            of_episode = moves(recording, lives, changes, episode, until)
            moved += of_episode[0]
            needed += min(of_episode)
    return {
        "rebalance_episodes": len(lengths),
        "rebalance_episodes_open": open_count,
        "rebalance_ms": sum(lengths),
        "rebalance_ms_max": max(lengths, default=0),
        "rebalance_coordinator_ms": sum(unsettled),
        "rebalance_coordinator_ms_max": max(unsettled, default=0),
        "rebalance_requests": requests,
        "rebalance_unowned_partition_ms": unowned_ms,
        "partition_moves_needed": needed,
        "partition_moves_beyond_need": moved - needed,
        **({"availability_loss_percent": 100 * unowned_ms / partition_ms} if partition_ms else {}),
        **at_members(recording),
        **crash_detection(recording),
    }


def overlap_ms(from_ms: int, to_ms: int, episode: Episode) -> int:
    """How much of a time lies in an episode."""
    return max(0, min(to_ms, episode.to_ms) - max(from_ms, episode.from_ms))


def requests_sent(recording: Recording, group_id: str, first: int, last: int) -> int:
    """Requests of membership that clients sent between two steps, the last of them included."""
    return sum(
        type(effect).__name__ in MEMBERSHIP
        for moment in recording.moments[first : last + 1]
        if moment.client is not None and moment.client.group_id == group_id
        for effect in moment.effects
    )


def moves(
    recording: Recording,
    lives: list[PartitionLife],
    changes: list[Owned],
    episode: Episode,
    until: int,
) -> tuple[int, int]:
    """Partitions whose consumer is another than at the beginning of an episode, and how many had to
    be: those of clients that have left, and what alike members had above their share."""
    at_begin, at_end = [], []
    until_ms = recording.end_ms
    if until < len(recording.moments):
        until_ms = recording.moments[until].at_ms
    for life in lives:
        if life.from_ms <= episode.from_ms <= life.to_ms:
            at_begin.append(last_consumer(life, changes, episode.begin))
        if life.from_ms <= episode.from_ms and life.to_ms >= until_ms:
            at_end.append((at_begin[-1], last_consumer(life, changes, until)))
    moved = sum(before is not None and before != after for before, after in at_end)
    exists = sum(life.from_ms <= episode.to_ms < life.to_ms for life in lives)
    share = ceil(exists / len(episode.staying)) if episode.staying else 0
    needed = 0
    for name in {name for name in at_begin if name is not None}:
        held = at_begin.count(name)
        if name not in episode.staying:
            needed += held
        elif len(set(episode.staying.values())) == 1:
            needed += max(0, held - share)
    return moved, needed


def last_consumer(life: PartitionLife, changes: list[Owned], before: int) -> str | None:
    """Who was the last to get a partition before a step; None if no one has."""
    found = consumers(life, [c for c in changes if c.step < before])
    return found[-1] if found else None


def at_members(recording: Recording) -> dict[str, float]:
    """From when a member learns of a rebalance until it is done with it, if it gets so far."""
    times: list[int] = []
    since_ms: dict[str, int] = {}
    for moment in recording.moments:
        client = moment.client
        if client is None:
            continue
        for effect in moment.effects:
            if type(effect).__name__ == "StateChanged":
                if effect.to_state.value in BUSY:
                    since_ms.setdefault(client.name, moment.at_ms)
                else:
                    began_ms = since_ms.pop(client.name, None)
                    if began_ms is not None and effect.to_state.value == "STABLE":
                        times.append(moment.at_ms - began_ms)
        if ends_process(moment):
            since_ms.pop(client.name, None)
    return {"member_rebalance_ms": sum(times), "member_rebalance_ms_max": max(times, default=0)}


def crash_detection(recording: Recording) -> dict[str, float]:
    """From the death of a process until its member is out of the group, if it was in one."""
    times: list[int] = []
    for group_id in recording.spec.group_ids:
        steps = [step for step in before_and_after(recording) if step[2] == group_id]
        acts = acts_for_group(steps)
        for index, moment in enumerate(recording.moments):
            client = moment.client
            if moment.kind is not StepKind.CLIENT_CRASHED or client is None:
                continue
            if client.group_id != group_id or moment.acting is None:
                continue
            if client.member_id in moment.acting.members:
                times += [
                    step[1].at_ms - moment.at_ms
                    for later, step in acts.items()
                    if later > index
                    and (step[4] is None or client.member_id not in step[4].members)
                ][:1]
    if not times:
        return {}
    return {
        "crash_detection_ms_max": max(times),
        "crash_detection_ms_mean": sum(times) / len(times),
    }
