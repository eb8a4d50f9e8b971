"""What every reconciliation step keeps: revoke before assign (coordinator §3.3, §14.1)."""

from __future__ import annotations

from dataclasses import replace

from coordinator_builders import VERSIONS
from hypothesis import given
from hypothesis import strategies as st

from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.consumer.reconciliation import (
    TRANSITIONS,
    Reconciliation,
    reconcile,
    situation_of,
)
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.protocol.wire.records import MemberState
from rebalance_sim.protocol.wire.topics import TopicPartition

PARTITIONS = [TopicPartition(topic, number) for topic in ("bar", "foo") for number in range(3)]
TARGET_EPOCH = 9

some = st.frozensets(st.sampled_from(PARTITIONS))


@st.composite
def steps(draw: st.DrawFn) -> Reconciliation:
    """A member that could be on a real coordinator, a target, an owned list, other owners."""
    rules = SEMANTICS[draw(st.sampled_from(VERSIONS))].coordinator()
    held = draw(some)
    state = draw(
        st.sampled_from(
            [
                MemberState.STABLE,
                MemberState.UNREVOKED_PARTITIONS,
                MemberState.UNRELEASED_PARTITIONS,
            ]
        )
    )
    pending = draw(some) & held if state is MemberState.UNREVOKED_PARTITIONS else frozenset()
    lowest_epoch_ahead = TARGET_EPOCH - 2 if pending else TARGET_EPOCH
    epoch = draw(st.integers(1, lowest_epoch_ahead))
    if state is MemberState.UNREVOKED_PARTITIONS and not pending:
        epoch = draw(st.sampled_from([0, -2]))  # A static member that is away, or has returned.
    member = Member(
        member_id="A",
        state=state,
        member_epoch=epoch,
        previous_member_epoch=draw(st.integers(-1, max(epoch, -1))),
        assigned=dict.fromkeys(sorted(held - pending), 1),
        pending_revocation=dict.fromkeys(sorted(pending), 1),
    )
    topics = draw(st.frozensets(st.sampled_from(["bar", "foo"])))
    held_by_others = draw(some) - held
    changed = draw(st.booleans())
    return Reconciliation(
        member=member,
        target_epoch=TARGET_EPOCH,
        target=rules.target_in_force(draw(some), topics),
        owned=draw(st.none() | some),
        is_free=lambda p: p not in held_by_others and p not in member.assigned,
        gives_up=rules.gives_up(member, topics) if changed else None,
        subscribes_to_nothing=not topics,
        revoking_epoch=rules.revoking_epoch(member),
    )


@given(steps())
def test_no_real_situation_is_outside_the_table(step: Reconciliation) -> None:
    assert (step.member.state, situation_of(step)) in TRANSITIONS


@given(steps())
def test_nothing_is_granted_while_something_must_be_revoked(step: Reconciliation) -> None:
    before, after = step.member, reconcile(step)
    if after.pending_revocation:
        assert after.assigned.keys() <= before.assigned.keys()


@given(steps())
def test_only_free_partitions_of_the_target_are_granted(step: Reconciliation) -> None:
    before, after = step.member, reconcile(step)
    for partition in after.assigned.keys() - before.assigned.keys():
        assert partition in step.target
        assert step.is_free(partition)
        assert after.assigned[partition] == step.target_epoch


@given(steps())
def test_nothing_is_let_go_that_the_member_may_still_hold(step: Reconciliation) -> None:
    """What leaves both sets was reported as not owned; not reported counts as held."""
    before, after = step.member, reconcile(step)
    held_before = {*before.assigned, *before.pending_revocation}
    let_go = held_before - {*after.assigned, *after.pending_revocation}
    if let_go:
        assert step.owned is not None
        assert let_go.isdisjoint(step.owned)


@given(steps())
def test_assigned_and_pending_stay_disjoint_and_pending_means_unrevoked(
    step: Reconciliation,
) -> None:
    """coordinator C2, C6."""
    after = reconcile(step)
    assert after.assigned.keys().isdisjoint(after.pending_revocation)
    if after.pending_revocation:
        assert after.state is MemberState.UNREVOKED_PARTITIONS


@given(steps())
def test_epochs_rise_to_the_target_epoch_at_most(step: Reconciliation) -> None:
    """coordinator C5; the previous epoch is the one before the step wherever anything is
    written."""
    before, after = step.member, reconcile(step)
    assert before.member_epoch <= after.member_epoch <= step.target_epoch
    if after is not before:
        assert after.previous_member_epoch == before.member_epoch


@given(steps())
def test_an_unchanged_member_is_the_same_object(step: Reconciliation) -> None:
    after = reconcile(step)
    assert after != step.member or after is step.member


@given(steps())
def test_an_obedient_member_arrives(step: Reconciliation) -> None:
    """Once nothing is held by others, acknowledging heartbeats end at the target, for good."""
    member = reconcile(step)
    for _ in range(3):
        current = replace(
            step,
            member=member,
            owned=frozenset(member.assigned),
            is_free=lambda _: True,
            gives_up=None,
            revoking_epoch=None,
        )
        member = reconcile(current)
    assert member.is_reconciled_to(step.target_epoch)
    if not step.member.is_reconciled_to(step.target_epoch):
        assert member.assigned.keys() == step.target
    assert reconcile(replace(current, member=member)) is member
