"""How franz-go balances members that subscribe to different topics (franz §7).

What is left goes to the least loaded subscriber. Then the member with least takes from all that it
can reach, over others if need be. Then partitions with the same subscribers change places for as
long as that lets one more stay where it was. Each step is that of kgo, and so is the order of the
steps: it decides which of several equal plans comes out.
"""

from __future__ import annotations

import heapq
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, TypeVar

from rebalance_sim.protocol.assignors.classic.classic_assignor import NamedPartition, partitions_of
from rebalance_sim.protocol.assignors.classic.sticky_general import GeneralBalancing

_T = TypeVar("_T")
_Plan = dict[str, list[NamedPartition]]


class FranzBalancing(GeneralBalancing):
    """Topics are in the order of their names: kgo has them in that of a Go map. With racks as the
    Java client does."""

    def assign(self) -> _Plan:
        """See ``GeneralBalancing``."""
        if self.racks is not None:
            return super().assign()
        self.plan: _Plan = {m: sorted(share) for m, share in self.shares.items()}
        self.readers = {
            topic: [m for m, topics in self.subscriptions.items() if topic in topics]
            for topic in sorted(self.counts)
        }
        self._give_back()
        came_with = self._holders()
        self._give_rest()
        self._steal()
        return _repaired(self.plan, came_with, self.readers)

    def _holders(self) -> dict[NamedPartition, str]:
        return {p: m for m, share in self.plan.items() for p in share}

    def _give_back(self) -> None:
        """To who claims it in an older generation, unless the other has no more than that one."""
        holder = self._holders()
        for partition, earlier in sorted(self.older.items()):
            present = holder.get(partition)
            if partition.topic not in self.subscriptions[earlier] or present == earlier:
                continue
            if present is not None:
                if len(self.plan[earlier]) + 1 >= len(self.plan[present]):
                    continue
                take_out(self.plan[present], partition)
            self.plan[earlier].append(partition)

    def _give_rest(self) -> None:
        given = self._holders()
        for topic, readers in self.readers.items():
            left = [p for p in partitions_of(topic, self.counts[topic]) if p not in given]
            give_by_load(readers if left else (), left, self.plan)

    def _steal(self) -> None:
        """For each level of load from the lowest on, until no one there reaches a higher one."""
        self.owners: dict[str, dict[str, list[NamedPartition]]] = {t: {} for t in self.readers}
        for partition, member_id in sorted(self._holders().items()):
            self.owners[partition.topic].setdefault(member_id, []).append(partition)
        levels: defaultdict[int, list[str]] = defaultdict(list)
        for member_id, share in self.plan.items():
            levels[len(share)].append(member_id)
        while (least := min(filter(levels.get, levels), default=None)) is not None:
            if max(filter(levels.get, levels)) <= least + 1:
                return
            member_id = levels[least][0]
            path = self._path(member_id)
            for giver, taker, partition in path:
                for one in (giver, taker):
                    if one in (level := levels[len(self.plan[one])]):
                        take_out(level, one)
                    change = 1 if one == taker else -1
                    levels[len(self.plan[one]) + change].append(one)
                take_out(self.plan[giver], partition)
                self.plan[taker].append(partition)
                take_out(self.owners[partition.topic][giver], partition)
                self.owners[partition.topic].setdefault(taker, []).append(partition)
            if not path:  # It will never have more.
                take_out(levels[least], member_id)

    def _path(self, start: str) -> list[tuple[str, str, NamedPartition]]:
        """Who gives what to whom, so that this one has one more, and one that has two more has one
        less; of who can be reached first those that have most, are nearest, come first."""
        rank = {member_id: number for number, member_id in enumerate(self.plan)}
        reached: dict[str, tuple[str, NamedPartition] | None] = {start: None}
        heap = [(-len(self.plan[start]), 0, rank[start], start)]
        while heap:
            load, distance, _, member_id = heapq.heappop(heap)
            if -load > len(self.plan[start]) + 1:
                path = []
                while (step := reached[member_id]) is not None:
                    path.append((member_id, *step))
                    member_id = step[0]
                return path
            for topic, readers in self.readers.items():
                for owner, parts in self.owners[topic].items() if member_id in readers else ():
                    if parts and owner not in reached:
                        reached[owner] = member_id, parts[0]
                        further = -len(self.plan[owner]), distance + 1, rank[owner], owner
                        heapq.heappush(heap, further)
        return []


def give_by_load(readers: Sequence[str], left: Sequence[NamedPartition], plan: _Plan) -> None:
    """A binary heap by load: who is at its root gets one, and stays there among equals."""
    heap = list(readers)

    def load(node: int) -> int:
        return len(plan[heap[node]])

    def sift_down(node: int) -> None:
        while (below := 2 * node + 1) < len(heap):
            child = min(range(below, min(below + 2, len(heap))), key=load)
            if load(node) <= load(child):
                return
            heap[node], heap[child] = heap[child], heap[node]
            node = child

    for node in reversed(range(len(heap) // 2)):
        sift_down(node)
    for partition in left:
        plan[heap[0]].append(partition)
        sift_down(0)


def take_out(things: list[_T], one: _T) -> None:
    """The last one takes its place."""
    things[things.index(one)] = things[-1]
    things.pop()


class _Cell(NamedTuple):
    """What a member has of a row: of the topics with the same subscribers."""

    member_id: str
    row: int


_Node = int | str | tuple[int]
"""Of the search for rotations: a row, a member, or a level of load."""


class _Arc(NamedTuple):
    """From where a node is reached, and by which cell that has one more then, or one less; of no
    cell, if load moves to a member that has one less."""

    source: _Node
    cell: _Cell | None = None
    change: int = 0


def _repaired(
    plan: _Plan, came_with: Mapping[NamedPartition, str], readers: Mapping[str, Sequence[str]]
) -> _Plan:
    """Counts change by rotations that let more stay, until there is none; then everybody takes back
    what it came with, as far as its counts go, and the rest is given out in order."""
    rows: dict[tuple[str, ...], int] = {}
    row_of = {topic: rows.setdefault(tuple(who), len(rows)) for topic, who in readers.items()}
    held = Counter(_Cell(m, row_of[p.topic]) for p, m in came_with.items())
    count = Counter(_Cell(m, row_of[p.topic]) for m, share in plan.items() for p in share)
    filled = {cell.row for cell in count}
    cells = [_Cell(m, r) for m in plan for who, r in rows.items() if r in filled and m in who]
    loads = {member_id: len(share) for member_id, share in plan.items()}
    while rotations := _rotations(cells, count, held, loads):
        for rotation in rotations:
            steps = [(arc.cell, arc.change) for arc in rotation if arc.cell is not None]
            moves_load = len(steps) < len(rotation)
            most = min(_room(count[c], held[c], n) for c, n in steps) if not moves_load else 1
            for cell, change in steps:
                count[cell] += change * most
                loads[cell.member_id] += change * most
    repaired: _Plan = {member_id: [] for member_id in plan}
    piles: defaultdict[int, list[NamedPartition]] = defaultdict(list)
    for partition in chain.from_iterable(plan.values()):
        cell = _Cell(came_with.get(partition, ""), row_of[partition.topic])
        if count[cell] > 0:
            count[cell] -= 1
            repaired[cell.member_id].append(partition)
        else:
            piles[cell.row].append(partition)
    for cell in cells:
        repaired[cell.member_id] += piles[cell.row][: count[cell]]
        del piles[cell.row][: count[cell]]
    return repaired


def _room(count: int, held: int, change: int) -> int:
    """How many may come or go at the price of the first."""
    if change > 0:
        return held - count if count < held else sys.maxsize
    return count - held if count > held else count


def _rotations(
    cells: Sequence[_Cell], count: Counter[_Cell], held: Counter[_Cell], loads: Mapping[str, int]
) -> list[list[_Arc]]:
    """Cycles by which fewer change their member: one more of a row costs a move, unless its member
    came with more, and one less saves it. Found by Bellman-Ford, from every node at once."""
    prices: defaultdict[_Node, int] = defaultdict(int)
    arcs: dict[_Node, _Arc] = {}

    def relax(target: _Node, price: int, arc: _Arc) -> bool:
        is_less = prices[arc.source] + price < prices[target]
        if is_less:
            prices[target], arcs[target] = prices[arc.source] + price, arc
        return is_less

    while True:
        has_moved = False
        for cell in cells:
            member_id, row = cell
            more, less = int(count[cell] >= held[cell]), -int(count[cell] > held[cell])
            has_moved |= relax(member_id, more, _Arc(row, cell, 1))
            has_moved |= count[cell] > 0 and relax(row, less, _Arc(member_id, cell, -1))
        for member_id, load in loads.items():
            if load + 1 in loads.values():
                has_moved |= relax((load + 1,), 0, _Arc(member_id))
            has_moved |= load > 0 and relax(member_id, 0, _Arc((load,)))
        cycles = list(_cycles(arcs))
        if cycles or not has_moved:
            return cycles


def _cycles(arcs: Mapping[_Node, _Arc]) -> Iterator[list[_Arc]]:
    seen: dict[_Node, _Node] = {}
    for start in arcs:
        node = start
        while node in arcs and node not in seen:
            seen[node] = start
            node = arcs[node].source
        if node in arcs and seen[node] == start:
            cycle = [arcs[node]]
            while cycle[-1].source != node:
                cycle.append(arcs[cycle[-1].source])
            yield cycle
