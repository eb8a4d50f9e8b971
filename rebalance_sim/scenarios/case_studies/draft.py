"""The group of an early draft of KIP-848, and its walk-through step by step.

The draft has no partitions that a member waits for: a member whose new partitions are not all free
yet stays at its epoch. One that has to give something up learns so at its old epoch, and moves
when it has done so. Any other member behind the target is offered epoch and partitions of it, and
moves once it echoes both. Source: KIP-848, the version of chapter "Case Studies" before the
accepted one, which printed nothing but this case.

It is a table of members, not the coordinator of ``protocol/``: no version of Kafka was like it.
"""

from __future__ import annotations

from dataclasses import replace

from rebalance_sim.scenarios.case_studies.model import (
    CaseResponse,
    CaseState,
    CaseStep,
    CaseStudy,
    Current,
)

_NOTHING: frozenset[str] = frozenset()


class DraftGroup:
    """The state of a group, and what becomes of it with each step."""

    def __init__(self, case: CaseStudy) -> None:
        self.state: CaseState = case.initial

    def act(self, step: CaseStep) -> CaseResponse | None:
        """Carry out one step; the answer of the group where the draft describes it. Raises
        ValueError for an action that the draft does not have."""
        match step.action:
            case "join":
                self._join(step.member)
            case "compute_target":
                self.state = replace(
                    self.state, target_epoch=self.state.group_epoch, target=step.eager.target
                )
            case "heartbeat" if step.epoch == self.state.current[step.member].epoch:
                return self._answer(step.member)
            case "heartbeat":
                self._echo(step.member, step.epoch, frozenset(step.owned))
            case "ack_revocation":
                self._move(step.member, self._kept(step.member))
            case _:
                raise ValueError(f"step {step.number}: the draft has no {step.action}")
        return None

    def _join(self, member: str) -> None:
        newcomer = Current(epoch=0, partitions=_NOTHING, pending=_NOTHING)
        self.state = replace(
            self.state,
            group_epoch=self.state.group_epoch + 1,
            members=self.state.members | {member},
            current={**self.state.current, member: newcomer},
        )

    def _answer(self, member: str) -> CaseResponse:
        """To a heartbeat at the epoch that the member has."""
        current, kept = self.state.current[member], self._kept(member)
        if kept != current.partitions:
            return _response(current.epoch, kept, revoke=current.partitions - kept)
        if current.epoch < self.state.target_epoch and self._is_free(member):
            return _response(self.state.target_epoch, self._target(member))
        return _response(current.epoch, current.partitions)

    def _echo(self, member: str, epoch: int | None, owned: frozenset[str]) -> None:
        """A heartbeat at another epoch is an echo of what was offered, or says nothing."""
        is_offered = epoch == self.state.target_epoch and self._is_free(member)
        if is_offered and owned == self._target(member):
            self._move(member, owned)

    def _move(self, member: str, partitions: frozenset[str]) -> None:
        moved = Current(epoch=self.state.target_epoch, partitions=partitions, pending=_NOTHING)
        self.state = replace(self.state, current={**self.state.current, member: moved})

    def _target(self, member: str) -> frozenset[str]:
        return self.state.target.get(member, _NOTHING)

    def _kept(self, member: str) -> frozenset[str]:
        """What the member has, and is to have."""
        return self.state.current[member].partitions & self._target(member)

    def _is_free(self, member: str) -> bool:
        """Whether no one else holds anything of what the member is to have."""
        target = self._target(member)
        return all(
            target.isdisjoint(current.partitions)
            for other, current in self.state.current.items()
            if other != member
        )


def _response(
    epoch: int, assigned: frozenset[str], *, revoke: frozenset[str] = _NOTHING
) -> CaseResponse:
    return CaseResponse(epoch=epoch, assigned=assigned, revoke=revoke, pending=_NOTHING)
