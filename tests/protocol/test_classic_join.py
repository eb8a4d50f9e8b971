"""Joining a classic group: ids, the initial delay, the join phase, who may come in."""

from __future__ import annotations

import pytest
from classic_builders import GROUP_ID, SESSION_MS, ClassicBench, codes, subscription

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.migration.migration_rules import MigrationRules
from rebalance_sim.protocol.versions.semantics import DEFAULT_SEMANTICS
from rebalance_sim.protocol.wire.classic_messages import JoinGroupRequest
from rebalance_sim.protocol.wire.errors import ErrorCode

EMPTY = ClassicGroupState.EMPTY
PREPARING = ClassicGroupState.PREPARING_REBALANCE
COMPLETING = ClassicGroupState.COMPLETING_REBALANCE
STABLE = ClassicGroupState.STABLE


# -- ids -----------------------------------------------------------------------------------


def test_a_newcomer_gets_an_id_and_nothing_else_happens() -> None:
    bench = ClassicBench()
    response = bench.send_join("A")
    assert response is not None
    assert response.error_code is ErrorCode.MEMBER_ID_REQUIRED
    assert response.member_id.startswith("A-")
    assert (response.generation_id, response.leader, response.members) == (-1, "", ())
    assert bench.state is EMPTY
    assert bench.group.pending_join == {response.member_id}
    assert not bench.group.members
    assert bench.wrote() == "2", "the group exists durably before it has a member"
    assert bench.due_ms("classic-session", "A") == SESSION_MS


def test_an_old_client_becomes_a_member_at_once() -> None:
    bench = ClassicBench()
    response = bench.send_join("A", version=3)
    assert response is not None
    assert codes(response) == [ErrorCode.NONE]
    assert bench.members() == {"A"}


def test_an_id_that_is_not_used_is_forgotten_after_its_session() -> None:
    bench = ClassicBench()
    bench.send_join("A")
    bench.wait(SESSION_MS - 1)
    assert bench.group.pending_join
    bench.wait(1)
    assert not bench.group.pending_join
    assert codes(bench.send_join("A")) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_an_instance_id_of_a_pending_id_is_an_error_of_the_server() -> None:
    bench = ClassicBench()
    bench.send_join("A")
    assert codes(bench.send_join("A", instance="i")) == [ErrorCode.UNKNOWN_SERVER_ERROR]


@pytest.mark.parametrize("session_ms", [999, 1_800_001])
def test_a_session_timeout_outside_the_bounds_creates_no_group(session_ms: int) -> None:
    bench = ClassicBench()
    assert codes(bench.send_join("A", session_ms=session_ms)) == [ErrorCode.INVALID_SESSION_TIMEOUT]
    assert not bench.shard.coordinator.groups_of(ClassicGroup)
    assert not bench.shard.batches


def test_an_id_of_a_group_that_is_not_there_is_unknown_and_creates_no_group() -> None:
    bench = ClassicBench()
    response = bench.send_join("A", member_id="somebody")
    assert response is not None
    assert (response.error_code, response.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "somebody")
    assert not bench.shard.coordinator.groups_of(ClassicGroup)


def test_an_assignor_that_is_named_twice_is_an_error_of_the_server_and_makes_no_group() -> None:
    bench = ClassicBench()
    refused = bench.send_join("A", protocols=("range", "range"), version=3)
    assert codes(refused) == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert not bench.shard.coordinator.groups_of(ClassicGroup)
    assert not bench.shard.batches


@pytest.mark.parametrize("by", ["member", "newcomer", "pending id", "static member"])
def test_an_assignor_that_is_named_twice_leaves_the_group_as_it_is(by: str) -> None:
    bench = ClassicBench().stable("A", instance="i")
    if by == "pending id":
        bench.send_join("B")
    before = bench.group.to_record(), bench.state, dict(bench.group.supported_protocols)
    twice = {"protocols": ("range", "range")}
    match by:
        case "member":
            refused = bench.send_join("A", instance="i", **twice)
        case "newcomer":
            refused = bench.send_join("B", version=3, **twice)
        case "pending id":
            refused = bench.send_join("B", **twice)
        case _:
            refused = bench.send_join("A2", instance="i", **twice)
    assert codes(refused) == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert (bench.group.to_record(), bench.state, bench.group.supported_protocols) == before


def test_a_join_without_a_group_id_is_refused() -> None:
    bench = ClassicBench()
    response = bench.shard.request(
        JoinGroupRequest(group_id="", member_id="", session_timeout_ms=10_000, protocols=())
    )
    assert codes(response) == [ErrorCode.INVALID_GROUP_ID]


def test_a_join_or_sync_without_a_token_is_a_mistake_of_the_host() -> None:
    bench = ClassicBench()
    request = JoinGroupRequest(
        group_id=GROUP_ID, member_id="", session_timeout_ms=10_000, protocols=()
    )
    with pytest.raises(TypeError, match="needs a token"):
        bench.shard.coordinator.handle(request, now_ms=0)


# -- the first rebalance -------------------------------------------------------------------


def test_joins_at_0_1000_and_2500_ms_form_generation_1_at_6_seconds() -> None:
    """The worked example of classic §1.5, with a delay of 3 s."""
    bench = ClassicBench(delay_ms=3_000)
    for at_ms, name in ((0, "A"), (1_000, "B"), (2_500, "C")):
        bench.wait(at_ms - bench.shard.now_ms)
        assert bench.join(name) is None
    bench.wait(5_999 - bench.shard.now_ms)
    assert (bench.state, bench.generation) == (PREPARING, 0)
    bench.wait(1)
    assert (bench.state, bench.generation) == (COMPLETING, 1)
    assert bench.members() == {"A", "B", "C"}


def test_no_one_else_comes_and_the_delay_is_not_extended() -> None:
    bench = ClassicBench(delay_ms=3_000)
    bench.join("A")
    bench.wait(2_999)
    assert bench.state is PREPARING
    bench.wait(1)
    assert bench.generation == 1
    assert codes(bench.joined("A")) == [ErrorCode.NONE]


def test_the_delays_never_exceed_the_rebalance_timeout_of_the_first_member() -> None:
    bench = ClassicBench(delay_ms=3_000)
    bench.join("M0", rebalance_ms=7_000)
    for second in range(1, 30):
        bench.wait(1_000)
        if bench.state is not PREPARING:
            break
        bench.join(f"M{second}", rebalance_ms=7_000)
    assert bench.shard.now_ms == 7_000


def test_all_have_left_and_the_delay_still_runs_to_its_end() -> None:
    bench = ClassicBench(delay_ms=3_000)
    bench.join("A")
    bench.leave("A")
    assert codes(bench.joined("A")) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert bench.state is PREPARING
    bench.wait(3_000)
    assert (bench.state, bench.generation) == (EMPTY, 1)


def test_a_delay_that_was_cut_short_does_not_prolong_the_next_rebalance() -> None:
    bench = ClassicBench(delay_ms=3_000)
    bench.join("A", rebalance_ms=5_000)
    bench.join("B", rebalance_ms=5_000)
    bench.send_join("C", session_ms=1_000)
    bench.wait(1_000)
    assert bench.generation == 1, "the pending id has expired"
    bench.joined("A")
    bench.joined("B")
    bench.settle()
    bench.join("D", rebalance_ms=5_000)
    bench.wait(5_000)
    assert (bench.generation, bench.members()) == (2, {"D"})


def test_without_a_delay_the_first_member_is_a_generation_of_its_own() -> None:
    bench = ClassicBench()
    bench.send_join("B")
    response = bench.join("A")
    assert response is not None
    assert (response.generation_id, response.protocol_name) == (1, "range")
    assert response.leader == response.member_id == bench.id("A")
    assert [row.member_id for row in response.members] == [bench.id("A")]
    assert response.members[0].metadata == subscription()
    assert bench.group.pending_join == {bench.id("B")}


def test_on_a_broker_a_phase_without_delay_ends_in_a_timer_of_its_own() -> None:
    class AsOnABroker(MigrationRules):
        ends_undelayed_phase_at_once = False

    bench = ClassicBench(DEFAULT_SEMANTICS.changed_by(AsOnABroker))
    assert bench.join("A") is None
    assert bench.state is PREPARING
    bench.wait(0)
    assert (bench.generation, bench.members()) == (1, {"A"})


# -- later rebalances ----------------------------------------------------------------------


def test_a_newcomer_waits_until_all_have_rejoined() -> None:
    bench = ClassicBench().stable("A")
    assert bench.join("B") is None
    assert bench.state is PREPARING
    assert bench.beat("A") is ErrorCode.REBALANCE_IN_PROGRESS
    leader = bench.send_join("A")
    follower = bench.joined("B")
    assert leader is not None and follower is not None
    assert leader.generation_id == follower.generation_id == 2
    assert leader.leader == follower.leader == bench.id("A")
    assert {row.member_id for row in leader.members} == {bench.id("A"), bench.id("B")}
    assert follower.members == ()
    assert bench.group.pending_sync == set(bench.group.members)


def test_who_does_not_rejoin_in_time_is_out() -> None:
    bench = ClassicBench().stable("A", rebalance_ms=1_500)
    bench.join("B", rebalance_ms=1_500)
    bench.wait(1_499)
    assert bench.members() == {"A", "B"}
    bench.wait(1)
    assert bench.members() == {"B"}
    response = bench.joined("B")
    assert response is not None
    assert (response.generation_id, response.leader) == (2, bench.id("B"))
    assert bench.beat("A") is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_longest_rebalance_timeout_counts() -> None:
    bench = ClassicBench().stable("A", rebalance_ms=5_000)
    bench.join("B", rebalance_ms=2_000)
    assert bench.due_ms("classic-join") - bench.shard.now_ms == 5_000


def test_a_pending_id_holds_up_everybody_until_its_session_ends() -> None:
    bench = ClassicBench().stable("A")
    bench.send_join("B", session_ms=4_000)
    assert bench.send_join("A") is None
    bench.wait(3_999)
    assert bench.state is PREPARING
    bench.wait(1)
    assert bench.generation == 2
    assert codes(bench.joined("A")) == [ErrorCode.NONE]


def test_a_new_member_may_wait_five_minutes_whatever_its_session_timeout_is() -> None:
    bench = ClassicBench(delay_ms=400_000)
    bench.join("A", rebalance_ms=1_000_000)
    bench.wait(299_999)
    assert bench.members() == {"A"}
    bench.wait(1)
    assert codes(bench.joined("A")) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert bench.state is EMPTY, "an expiry cuts the initial delay short"


def test_a_parked_request_stands_for_heartbeats() -> None:
    bench = ClassicBench().stable("A", "B", rebalance_ms=60_000)
    bench.send_join("A", rebalance_ms=60_000)
    bench.wait(SESSION_MS - 1)
    assert bench.beat("B") is ErrorCode.REBALANCE_IN_PROGRESS
    bench.wait(SESSION_MS - 1)
    assert bench.members() == {"A", "B"}


# -- rejoining -----------------------------------------------------------------------------


def test_a_follower_with_the_same_metadata_gets_the_present_generation() -> None:
    bench = ClassicBench().stable("A", "B")
    response = bench.send_join("B")
    assert response is not None
    assert (response.generation_id, response.members) == (bench.generation, ())
    assert bench.state is STABLE


@pytest.mark.parametrize(
    "metadata",
    [
        subscription(("foo", "bar")),
        subscription(owned={"foo": (0, 1)}),
        subscription(generation=2),
        subscription(version=2),
    ],
)
def test_a_follower_with_other_bytes_starts_a_rebalance(metadata: object) -> None:
    bench = ClassicBench().stable("A", "B")
    assert bench.send_join("B", metadata=metadata) is None
    assert bench.state is PREPARING


def test_the_order_of_protocols_counts_as_metadata() -> None:
    bench = ClassicBench().stable("A", "B", protocols=("range", "sticky"))
    assert bench.send_join("B", protocols=("sticky", "range")) is None
    assert bench.state is PREPARING


def test_the_leader_starts_a_rebalance_by_rejoining_unchanged() -> None:
    bench = ClassicBench().stable("A", "B")
    assert bench.send_join("A") is None
    assert bench.state is PREPARING


def test_a_lost_answer_is_repeated_while_the_group_completes() -> None:
    bench = ClassicBench().stable("A")
    bench.join("B")
    bench.send_join("A")
    again = bench.send_join("A")
    assert again is not None
    assert (again.generation_id, len(again.members)) == (2, 2)
    assert bench.state is COMPLETING


def test_a_newer_request_of_a_member_takes_the_place_of_its_parked_one() -> None:
    bench = ClassicBench().stable("A")
    bench.join("B")
    bench.send_join("B", session_ms=5_000)
    assert bench.group.num_awaiting_join == 1
    bench.send_join("A")
    assert codes(bench.joined("B")) == [ErrorCode.NONE]
    assert bench.due_ms("classic-session", "B") - bench.shard.now_ms == 5_000


# -- who may come in -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("protocols", "protocol_type", "code"),
    [
        (("range",), "consumer", ErrorCode.MEMBER_ID_REQUIRED),
        (("sticky", "range"), "consumer", ErrorCode.MEMBER_ID_REQUIRED),
        (("sticky",), "consumer", ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (("range",), "connect", ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ((), "consumer", ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_a_newcomer_must_share_a_protocol_with_all(
    protocols: tuple[str, ...], protocol_type: str, code: ErrorCode
) -> None:
    bench = ClassicBench().stable("A", protocols=("range", "roundrobin"))
    response = bench.send_join("B", protocols=protocols, protocol_type=protocol_type)
    assert codes(response) == [code]


@pytest.mark.parametrize(("protocols", "protocol_type"), [((), "consumer"), (("range",), "")])
def test_an_empty_group_asks_for_a_type_and_a_protocol(
    protocols: tuple[str, ...], protocol_type: str
) -> None:
    bench = ClassicBench()
    response = bench.send_join("A", protocols=protocols, protocol_type=protocol_type)
    assert codes(response) == [ErrorCode.INCONSISTENT_GROUP_PROTOCOL]


def test_a_member_cannot_swap_its_only_protocol_in_place() -> None:
    bench = ClassicBench().stable("A", "B")
    response = bench.send_join("B", protocols=("cooperative-sticky",))
    assert codes(response) == [ErrorCode.INCONSISTENT_GROUP_PROTOCOL]
    assert bench.state is STABLE


def test_the_protocol_with_the_most_votes_is_selected() -> None:
    bench = ClassicBench(delay_ms=1_000)
    bench.join("A", protocols=("range", "sticky"))
    bench.join("B", protocols=("sticky", "range"))
    bench.join("C", protocols=("sticky", "range", "other"))
    bench.wait(2_000)
    assert bench.group.protocol_name == "sticky"


def test_a_tie_of_votes_goes_to_the_order_of_the_leader() -> None:
    bench = ClassicBench(delay_ms=1_000)
    bench.join("B", protocols=("sticky", "range"))
    bench.join("A", protocols=("range", "sticky"))
    bench.wait(2_000)
    assert bench.name(bench.group.leader_id) == "B"
    assert bench.group.protocol_name == "sticky"


def test_a_full_group_takes_no_one_but_its_members() -> None:
    bench = ClassicBench(group_max_size=2).stable("A", "B")
    assert codes(bench.send_join("C")) == [ErrorCode.GROUP_MAX_SIZE_REACHED]
    assert codes(bench.send_join("B")) == [ErrorCode.NONE]


def test_while_preparing_only_those_who_wait_count_for_the_size() -> None:
    bench = ClassicBench(group_max_size=2).stable("A", "B")
    bench.send_join("A")
    assert codes(bench.send_join("C")) == [ErrorCode.MEMBER_ID_REQUIRED]
    assert bench.send_join("C") is None
    assert codes(bench.send_join("B")) == [ErrorCode.GROUP_MAX_SIZE_REACHED], "the place is gone"
    assert bench.members() == {"A", "C"}


def test_a_static_member_that_returns_to_a_full_group_without_its_id_counts_as_new() -> None:
    bench = ClassicBench(group_max_size=1).stable("A", instance="i")
    assert codes(bench.send_join("A2", instance="i")) == [ErrorCode.GROUP_MAX_SIZE_REACHED]


def test_version_0_has_no_rebalance_timeout_of_its_own() -> None:
    bench = ClassicBench()
    bench.send_join("A", version=0, session_ms=7_000, rebalance_ms=-1)
    assert bench.group.members[bench.id("A")].rebalance_timeout_ms == 7_000


# -- what the coordinator knows of subscriptions -------------------------------------------


def test_the_topics_of_a_generation_are_those_of_its_members() -> None:
    bench = ClassicBench(topics={"foo": 1, "bar": 1})
    bench.join("A", metadata=subscription(("foo",)))
    bench.join("B", metadata=subscription(("bar",)))
    assert bench.group.subscribed_topics == {"foo"}, "B has not made a generation yet"
    bench.send_join("A", metadata=subscription(("foo",)))
    assert bench.group.subscribed_topics == {"foo", "bar"}


def test_nothing_is_known_of_members_that_are_no_consumers() -> None:
    bench = ClassicBench()
    bench.join("A", metadata=b"\x01", protocol_type="connect")
    assert bench.group.subscribed_topics is None
    assert not bench.group.is_subscribed_to("foo")


def test_unreadable_metadata_may_subscribe_to_anything() -> None:
    bench = ClassicBench()
    bench.join("A", metadata=b"\x01")
    assert bench.group.subscribed_topics is None
    assert bench.group.is_subscribed_to("foo")


@pytest.mark.parametrize(
    ("version", "field"),
    [(0, {"owned": {"foo": (0,)}}), (1, {"generation": 4})],
)
def test_metadata_cannot_hold_what_its_version_does_not_carry(
    version: int, field: dict[str, object]
) -> None:
    with pytest.raises(ValueError, match=f"version {version} carries no"):
        subscription(version=version, **field)  # type: ignore[arg-type]
