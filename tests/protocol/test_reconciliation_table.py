"""The reconciliation table, row by row (coordinator §3.3-§3.6)."""

from __future__ import annotations

import pytest
from coordinator_builders import FIRST_EPOCH, Bench, both_versions, parts, text

from rebalance_sim.protocol.consumer import reconciliation
from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.consumer.reconciliation import (
    TRANSITIONS,
    Effect,
    Reconciliation,
    Situation,
    reconcile,
    situation_of,
)
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.protocol.wire.errors import ErrorCode, GroupError, IllegalTransition
from rebalance_sim.protocol.wire.records import MemberState

STABLE = MemberState.STABLE
UNREVOKED = MemberState.UNREVOKED_PARTITIONS
UNRELEASED = MemberState.UNRELEASED_PARTITIONS
UNKNOWN = MemberState.UNKNOWN

GRID = [(state, situation) for state in MemberState for situation in Situation]

E, TE = 4, 7
"""Member and target epoch in the rows below; the previous epoch is 3 unless a row says so."""


def step(
    state: MemberState,
    *,
    assigned: str = "",
    pending: str = "",
    target: str = "",
    owned: str | None = None,
    busy: str = "",
    gone: str | None = None,
    epoch: int = E,
    version: str = "kafka-4.3",
    subscribes_to_nothing: bool = False,
) -> Reconciliation:
    """A member on its way to a target, as a heartbeat of a version would hand it over.

    ``busy`` is held by others; ``gone`` belongs to topics dropped by this request.
    """
    member = Member(
        member_id="A",
        state=state,
        member_epoch=epoch,
        previous_member_epoch=3,
        assigned=dict.fromkeys(parts(assigned), 2),
        pending_revocation=dict.fromkeys(parts(pending), 2),
    )
    rules = SEMANTICS[version].coordinator()
    held_by_others = parts(busy)
    return Reconciliation(
        member=member,
        target_epoch=TE,
        target=parts(target),
        owned=None if owned is None else parts(owned),
        is_free=lambda partition: partition not in held_by_others,
        gives_up=None if gone is None else parts(gone),
        subscribes_to_nothing=subscribes_to_nothing,
        revoking_epoch=rules.revoking_epoch(member),
    )


def outcome(given: Reconciliation) -> tuple[MemberState, int, int, str, str]:
    """State, epoch, previous epoch, assigned, pending: the columns of coordinator §3.5."""
    after = reconcile(given)
    return (
        after.state,
        after.member_epoch,
        after.previous_member_epoch,
        text(after.assigned),
        text(after.pending_revocation),
    )


# -- the grid ------------------------------------------------------------------------------


@pytest.mark.parametrize(("state", "situation"), GRID)
def test_every_pair_is_in_the_table_or_illegal(
    state: MemberState, situation: Situation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciliation, "situation_of", lambda _: situation)
    given = step(state, assigned="foo[0]", target="foo[0]", gone="")
    if (state, situation) in TRANSITIONS:
        reconcile(given)
    else:
        with pytest.raises(IllegalTransition, match=f"{state.name} x {situation.name}"):
            reconcile(given)


MEETS = {
    (STABLE, Situation.RECONCILED): step(STABLE, epoch=TE),
    (STABLE, Situation.MUST_REVOKE): step(STABLE, assigned="foo[0]"),
    (STABLE, Situation.MUST_WAIT): step(STABLE, target="foo[0]", busy="foo[0]"),
    (STABLE, Situation.CAN_COMPLETE): step(STABLE, target="foo[0]"),
    (STABLE, Situation.UNSUBSCRIBED_HELD): step(STABLE, epoch=TE, assigned="foo[0]", gone="foo[0]"),
    (STABLE, Situation.UNSUBSCRIBED_RELEASED): step(
        STABLE, epoch=TE, assigned="foo[0]", gone="foo[0]", owned=""
    ),
    (UNREVOKED, Situation.NOT_ACKNOWLEDGED): step(UNREVOKED, pending="foo[0]"),
    (UNREVOKED, Situation.UNSUBSCRIBED_HELD): step(
        UNREVOKED, assigned="bar[0]", pending="foo[0]", gone="bar[0]"
    ),
    (UNREVOKED, Situation.MUST_REVOKE): step(
        UNREVOKED, assigned="bar[0]", pending="foo[0]", owned="bar[0]"
    ),
    (UNREVOKED, Situation.MUST_WAIT): step(
        UNREVOKED, pending="foo[0]", owned="", target="bar[0]", busy="bar[0]"
    ),
    (UNREVOKED, Situation.CAN_COMPLETE): step(UNREVOKED, pending="foo[0]", owned=""),
    (UNRELEASED, Situation.MUST_REVOKE): step(UNRELEASED, assigned="foo[0]"),
    (UNRELEASED, Situation.MUST_WAIT): step(UNRELEASED, target="foo[0]", busy="foo[0]"),
    (UNRELEASED, Situation.CAN_COMPLETE): step(UNRELEASED, target="foo[0]"),
    (UNKNOWN, Situation.MUST_WAIT): step(UNKNOWN, owned="", target="foo[0]", busy="foo[0]"),
    (UNKNOWN, Situation.CAN_COMPLETE): step(UNKNOWN, owned="", target="foo[0]"),
}


def test_every_pair_of_the_table_is_met_by_some_member_and_no_other_pair_is_claimed() -> None:
    assert set(TRANSITIONS) == set(MEETS)
    assert {(g.member.state, situation_of(g)): g for g in MEETS.values()}.keys() == MEETS.keys()


@pytest.mark.parametrize("pair", MEETS, ids=lambda pair: f"{pair[0].name}-{pair[1].name}")
def test_a_member_ends_in_the_state_that_the_table_names(
    pair: tuple[MemberState, Situation],
) -> None:
    given, transition = MEETS[pair], TRANSITIONS[pair]
    after = reconcile(given)
    assert after.state is transition.next_state
    assert (after is given.member) is (transition.effect is Effect.NOTHING)


# -- coordinator §3.5, row by row ----------------------------------------------------------

ROWS = {
    "STABLE, e = TE: unchanged": (
        step(STABLE, epoch=TE, assigned="foo[0]", target="foo[0]"),
        (STABLE, TE, 3, "foo-0", ""),
    ),
    "STABLE, hold": (
        step(STABLE, assigned="foo[0,1]", target="foo[0,2]", owned="foo[0,1]"),
        (UNREVOKED, E, E, "foo-0", "foo-1"),
    ),
    "STABLE, hold because nothing is reported": (
        step(STABLE, assigned="foo[0,1]", target="foo[0,2]", owned=None),
        (UNREVOKED, E, E, "foo-0", "foo-1"),
    ),
    "STABLE, drop not held: released without an UNREVOKED phase": (
        step(STABLE, assigned="foo[0,1]", target="foo[0,2]", owned="foo[0]"),
        (STABLE, TE, E, "foo-0 foo-2", ""),
    ),
    "STABLE, not hold, busy": (
        step(STABLE, assigned="foo[0]", target="foo[0-2]", busy="foo[2]"),
        (UNRELEASED, TE, E, "foo-0 foo-1", ""),
    ),
    "STABLE, not hold, not busy": (
        step(STABLE, assigned="foo[0]", target="foo[0,1]"),
        (STABLE, TE, E, "foo-0 foo-1", ""),
    ),
    "STABLE, nothing lost and nothing gained: only the epoch rises": (
        step(STABLE, assigned="foo[0]", target="foo[0]"),
        (STABLE, TE, E, "foo-0", ""),
    ),
    "UNREVOKED, not ack: nothing is reported": (
        step(UNREVOKED, assigned="foo[0]", pending="foo[1]", target="foo[0,2]"),
        (UNREVOKED, E, 3, "foo-0", "foo-1"),
    ),
    "UNREVOKED, not ack: part of it is still held": (
        step(UNREVOKED, assigned="foo[0]", pending="foo[1,2]", target="foo[0]", owned="foo[0,2]"),
        (UNREVOKED, E, 3, "foo-0", "foo-1 foo-2"),
    ),
    "UNREVOKED, not ack, although the new target gives it all back": (
        step(UNREVOKED, assigned="foo[0]", pending="foo[1]", target="foo[0,1]", owned="foo[0,1]"),
        (UNREVOKED, E, 3, "foo-0", "foo-1"),
    ),
    "UNREVOKED, ack, not hold, busy": (
        step(
            UNREVOKED, assigned="foo[0]", pending="foo[1]", target="foo[0,2]", owned="foo[0]",
            busy="foo[2]",
        ),
        (UNRELEASED, TE, E, "foo-0", ""),
    ),
    "UNREVOKED, ack, not hold, not busy": (
        step(UNREVOKED, assigned="foo[0]", pending="foo[1]", target="foo[0,2]", owned="foo[0]"),
        (STABLE, TE, E, "foo-0 foo-2", ""),
    ),
    "UNREVOKED, ack, the new target gives it back: in the same heartbeat": (
        step(UNREVOKED, assigned="foo[0]", pending="foo[1]", target="foo[0,1]", owned="foo[0]"),
        (STABLE, TE, E, "foo-0 foo-1", ""),
    ),
    "UNRELEASED, hold": (
        step(UNRELEASED, assigned="foo[0,1]", target="foo[0]"),
        (UNREVOKED, E, E, "foo-0", "foo-1"),
    ),
    "UNRELEASED, not hold, busy: some of it is granted": (
        step(UNRELEASED, epoch=TE, target="foo[0,1]", busy="foo[1]"),
        (UNRELEASED, TE, TE, "foo-0", ""),
    ),
    "UNRELEASED, not hold, busy: the first idle heartbeat rewrites the previous epoch": (
        step(UNRELEASED, epoch=TE, target="foo[0]", busy="foo[0]"),
        (UNRELEASED, TE, TE, "", ""),
    ),
    "UNRELEASED, not hold, not busy": (
        step(UNRELEASED, epoch=TE, target="foo[0]"),
        (STABLE, TE, TE, "foo-0", ""),
    ),
    "UNKNOWN, owned reported and empty": (
        step(UNKNOWN, assigned="foo[0]", target="foo[1]", owned=""),
        (STABLE, TE, E, "foo-1", ""),
    ),
    "4.3: UNREVOKED, not ack, subscription changed: the rest of the topic is pending, too": (
        step(
            UNREVOKED, assigned="bar[0] foo[0]", pending="foo[1]", target="bar[0]", gone="foo[0]"
        ),
        (UNREVOKED, E, E, "bar-0", "foo-0 foo-1"),
    ),
    "4.3: STABLE, e = TE: give_up, held": (
        step(STABLE, epoch=TE, assigned="bar[0] foo[0]", owned="bar[0] foo[0]", gone="foo[0]"),
        (UNREVOKED, TE, TE, "bar-0", "foo-0"),
    ),
    "4.3: STABLE, e = TE: give_up, nothing reported": (
        step(STABLE, epoch=TE, assigned="bar[0] foo[0]", gone="foo[0]"),
        (UNREVOKED, TE, TE, "bar-0", "foo-0"),
    ),
    "4.3: STABLE, e = TE: give_up, disjoint": (
        step(STABLE, epoch=TE, assigned="bar[0] foo[0]", owned="bar[0]", gone="foo[0]"),
        (STABLE, TE, TE, "bar-0", ""),
    ),
    "4.3: UNREVOKED, e = TE: ack of that": (
        step(
            UNREVOKED, epoch=TE, assigned="bar[0]", pending="foo[0]", target="bar[0]",
            owned="bar[0]",
        ),
        (STABLE, TE, TE, "bar-0", ""),
    ),
    "4.3: UNREVOKED, e = TE: ack of that, and part of the target is held by others": (
        step(
            UNREVOKED, epoch=TE, assigned="bar[0]", pending="foo[0]", target="bar[0,1]",
            owned="bar[0]", busy="bar[1]",
        ),
        (UNRELEASED, TE, TE, "bar-0", ""),
    ),
    "4.3: the oddity: no name is left, nothing is held, only the previous epoch is rewritten": (
        step(STABLE, epoch=TE, gone="", subscribes_to_nothing=True),
        (STABLE, TE, TE, "", ""),
    ),
    "4.3: not so if a name is left": (
        step(STABLE, epoch=TE, gone=""),
        (STABLE, TE, 3, "", ""),
    ),
    "4.3: not so if something is held": (
        step(STABLE, epoch=TE, assigned="foo[0]", gone="", subscribes_to_nothing=True),
        (STABLE, TE, 3, "foo-0", ""),
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_row_of_section_3_5(row: str) -> None:
    given, expected = ROWS[row]
    assert outcome(given) == expected


@pytest.mark.parametrize(("version", "epoch"), [("kafka-4.1", E + 1), ("kafka-4.3", E)])
def test_a_second_revocation_raises_the_epoch_on_4_1_only(version: str, epoch: int) -> None:
    given = step(
        UNREVOKED, assigned="foo[0,1]", pending="foo[2]", target="foo[0]", owned="foo[0,1]",
        version=version,
    )  # fmt: skip
    assert outcome(given) == (UNREVOKED, epoch, E, "foo-0", "foo-1")


@both_versions
def test_the_first_revocation_keeps_the_epoch(version: str) -> None:
    for state in (STABLE, UNRELEASED):
        given = step(state, assigned="foo[0,1]", target="foo[0]", version=version)
        assert outcome(given) == (UNREVOKED, E, E, "foo-0", "foo-1")


@pytest.mark.parametrize("owned", [None, "foo[0]"])
def test_a_member_of_unknown_state_that_may_still_own_something_is_fenced(
    owned: str | None,
) -> None:
    with pytest.raises(GroupError) as refusal:
        reconcile(step(UNKNOWN, assigned="foo[0]", target="foo[0]", owned=owned))
    assert refusal.value.code is ErrorCode.FENCED_MEMBER_EPOCH


def test_kept_partitions_keep_their_assignment_epoch_and_granted_ones_get_the_target_epoch() -> (
    None
):
    granted = reconcile(step(STABLE, assigned="foo[0]", target="foo[0,1]"))
    assert dict(granted.assigned) == {("foo", 0): 2, ("foo", 1): TE}
    revoking = reconcile(step(STABLE, assigned="foo[0,1]", target="foo[0]"))
    assert dict(revoking.assigned) == {("foo", 0): 2}
    assert dict(revoking.pending_revocation) == {("foo", 1): 2}
    returned = reconcile(step(UNREVOKED, pending="foo[0]", target="foo[0]", owned=""))
    assert dict(returned.assigned) == {("foo", 0): TE}


# -- coordinator §3.6 ----------------------------------------------------------------------


@both_versions
def test_the_worked_trace_of_section_3_6(version: str) -> None:
    """Three partitions, two members; on 4.3 every epoch is one higher."""
    bench = Bench(version)
    one = FIRST_EPOCH[version]
    two = one + 1

    response = bench.join("A")
    assert bench.epochs == (one, one)
    assert bench.view("A") == f"{one}/0 STABLE foo-0 foo-1 foo-2"
    assert (response.member_epoch, response.assignment) == (one, parts("foo[0-2]"))

    response = bench.join("B")
    assert bench.epochs == (two, two)
    assert (bench.target("A"), bench.target("B")) == ("foo-0 foo-1", "foo-2")
    assert bench.view("A") == f"{one}/0 STABLE foo-0 foo-1 foo-2"
    assert bench.view("B") == f"{two}/0 UNRELEASED -"
    assert (response.member_epoch, response.assignment) == (two, frozenset())

    response = bench.beat("A")
    assert bench.view("A") == f"{one}/{one} UNREVOKED foo-0 foo-1 (foo-2)"
    assert (response.member_epoch, response.assignment) == (one, parts("foo[0,1]"))
    assert bench.timer_at("rebalance", "A") == 60_000

    response = bench.beat("B")
    assert bench.view("B") == f"{two}/{two} UNRELEASED -"
    assert bench.wrote == "8B"
    assert (response.member_epoch, response.assignment) == (two, None)

    response = bench.beat("B")
    assert bench.wrote == ""
    assert (response.member_epoch, response.assignment) == (two, None)

    response = bench.beat("A", owned="foo[0,1]")
    assert bench.view("A") == f"{two}/{one} STABLE foo-0 foo-1"
    assert (response.member_epoch, response.assignment) == (two, None)
    assert bench.timer_at("rebalance", "A") is None

    response = bench.beat("B")
    assert bench.view("B") == f"{two}/{two} STABLE foo-2"
    assert (response.member_epoch, response.assignment) == (two, parts("foo[2]"))
    assert bench.state == "Stable"
