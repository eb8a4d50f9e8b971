"""Which assignor a group uses, and which member computes (coordinator §12.1-§12.4)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from assignment_builders import REBALANCE_TIMEOUT_MS, ComputingBench, assigned, computing, offer
from coordinator_builders import GROUP_ID, Bench, assert_accepted, assert_refused, parts

from rebalance_sim.protocol.consumer.computation import ComputationStep
from rebalance_sim.protocol.wire.assignment_messages import ClientAssignor
from rebalance_sim.protocol.wire.classic_messages import JoinGroupProtocol, JoinGroupRequest
from rebalance_sim.protocol.wire.embedded import Subscription

INVALID = "INVALID_REQUEST"


# -- what a heartbeat may say --------------------------------------------------------------


@pytest.mark.parametrize(
    ("offers", "message"),
    [
        ([offer(" ")], "Assignor.Name can't be empty."),
        ([offer(minimum_version=-2)], "Assignor.MinimumVersion must be >= -1."),
        (
            [offer(minimum_version=-1, maximum_version=-1, metadata_version=-1)],
            "Assignor.MaximumVersion must be >= 0 and >= MinimumVersion.",
        ),
        (
            [offer(minimum_version=2)],
            "Assignor.MaximumVersion must be >= 0 and >= MinimumVersion.",
        ),
        (
            [offer(metadata_version=2)],
            "Assignor.MetadataVersion must lie within the assignor's versions.",
        ),
        (
            [offer("fine"), offer(minimum_version=1)],
            "Assignor.MetadataVersion must lie within the assignor's versions.",
        ),
        ([offer(), offer()], "ClientAssignors can't name an assignor twice."),
    ],
)
def test_an_assignor_that_contradicts_itself_is_refused(
    offers: list[ClientAssignor], message: str
) -> None:
    bench = Bench("kip-848")
    assert_refused(bench.join("A", client_assignors=tuple(offers)), INVALID, message)
    assert bench.wrote == ""


def test_the_lowest_versions_that_are_allowed_are_accepted() -> None:
    bench = Bench("kip-848")
    lowest = offer(minimum_version=-1, maximum_version=0, metadata_version=-1)
    assert_accepted(bench.join("A", client_assignors=(lowest,)))


def test_assignors_of_both_sides_together_are_refused() -> None:
    bench = Bench("kip-848")
    assert_refused(
        bench.join("A", client_assignors=(offer(),), server_assignor="range"),
        INVALID,
        "ServerAssignor and ClientAssignors can't be used together.",
    )
    assert_accepted(bench.join("A", client_assignors=(), server_assignor="range"))


@pytest.mark.parametrize("version", ["kafka-4.1", "kafka-4.3"])
def test_versions_that_were_shipped_do_not_know_the_field(version: str) -> None:
    bench = ComputingBench(version)
    assert_refused(
        bench.join("A", client_assignors=()),
        "UNSUPPORTED_VERSION",
        "This version has no client-side assignors.",
    )
    bench.join("A")
    assert bench.prepare("A").error_code.name == "UNSUPPORTED_VERSION"
    assert bench.install("A", 1, {}).error_code.name == "UNSUPPORTED_VERSION"


@pytest.mark.parametrize("field", ["minimum_version", "maximum_version", "metadata_version"])
def test_a_number_that_does_not_fit_its_field_cannot_be_said(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field} must fit 16 bits, got 32768"):
        offer(**{field: 32_768})
    with pytest.raises(ValueError, match="reason must fit 8 bits, got -129"):
        offer(reason=-129)


# -- what raises the group epoch -----------------------------------------------------------


@pytest.mark.parametrize(
    ("offers", "is_raised"),
    [
        ((offer(),), False),
        ((offer(metadata_bytes=b"new"),), True),
        ((offer(metadata_version=1),), True),
        ((offer(maximum_version=2),), True),
        ((offer(reason=1),), True),
        ((offer(), offer("more")), True),
        ((), True),
    ],
)
def test_what_is_said_to_an_assignor_raises_the_group_epoch_where_it_differs(
    offers: tuple[ClientAssignor, ...], is_raised: bool
) -> None:
    bench = assigned()
    assert_accepted(bench.beat("A", client_assignors=offers))
    assert bench.wrote == ("5A 3" if is_raised else "")
    assert bench.epochs == ((2, 1) if is_raised else (1, 1))
    assert bench.member("A").client_assignors == offers


def test_a_reason_counts_once_and_its_end_is_no_news() -> None:
    bench = assigned()
    bench.beat("A", client_assignors=(offer(reason=2),))
    bench.beat("A", client_assignors=(offer(reason=2),))
    assert bench.epochs == (2, 1)
    bench.beat("A", client_assignors=(offer(),))
    assert bench.wrote == "5A"
    bench.beat("A", client_assignors=(offer(reason=2),))
    assert bench.epochs == (3, 1)


def test_silence_about_assignors_keeps_them() -> None:
    bench = assigned()
    bench.beat("A", rebalance_timeout_ms=1_000)
    assert bench.member("A").client_assignors == (offer(),)


def test_naming_a_brokers_assignor_takes_the_others_back_and_the_reverse() -> None:
    bench = assigned()
    bench.beat("A", server_assignor="range")
    assert (bench.member("A").client_assignors, bench.epochs) == ((), (2, 1))
    bench.wait(0)
    assert bench.epochs == (2, 2)
    bench.beat("A", client_assignors=(offer(),))
    assert bench.member("A").server_assignor is None
    assert (bench.group.server_assignors, bench.group.client_assignors) == ({}, {"own": 1})


# -- client side or server side ------------------------------------------------------------


def test_a_client_side_assignor_is_used_only_if_all_members_offer_it() -> None:
    bench = ComputingBench()
    bench.join_with("A")
    assert (bench.chosen, bench.epochs) == ("A", (1, 0))
    bench.join("B")
    bench.wait(0)
    assert (bench.chosen, bench.epochs) == (None, (2, 2))
    assert bench.describe().assignor == "uniform"
    bench.join_with("B")
    assert (bench.chosen, bench.epochs) == ("A", (3, 2))
    assert bench.describe().assignor == "own"


def test_members_with_different_assignors_get_a_brokers_one() -> None:
    bench = ComputingBench()
    bench.join_with("A", offer("one"))
    assert_accepted(bench.join_with("B", offer("other")))
    assert (bench.chosen, bench.epochs) == (None, (2, 2))


def test_of_several_common_assignors_the_one_with_the_best_ranks_is_used() -> None:
    bench = ComputingBench()
    bench.join_with("A", offer("x"), offer("y"), offer("z"))
    bench.join_with("B", offer("y"), offer("z"), offer("x"))
    assert bench.prepare("A").assignor_name == "y"  # Ranks x 0 + 2, y 1 + 0, z 2 + 1.


def test_between_equal_ranks_the_name_decides() -> None:
    bench = ComputingBench()
    bench.join_with("A", offer("x"), offer("y"))
    bench.join_with("B", offer("y"), offer("x"))
    assert bench.prepare("A").assignor_name == "x"


def test_an_assignor_that_no_one_can_run_gives_way_to_the_next() -> None:
    bench = ComputingBench()
    old, new = {"maximum_version": 0}, {"minimum_version": 1, "metadata_version": 1}
    bench.join_with("A", offer("x", **old), offer("y"))
    bench.join_with("B", offer("x", **new), offer("y"))
    assert bench.prepare("A").assignor_name == "y"


def test_who_makes_the_metadata_unreadable_for_everybody_is_refused() -> None:
    bench = ComputingBench()
    bench.join_with("A", offer(maximum_version=0))
    response = bench.join_with("B", offer(minimum_version=1, metadata_version=1))
    assert_refused(response, "UNSUPPORTED_ASSIGNOR")
    assert "B" not in bench.group.members
    assert_accepted(bench.join_with("C", offer(metadata_version=1)))
    assert bench.chosen == "C"  # A does not read version 1.


def test_a_change_that_makes_the_metadata_unreadable_is_refused_too() -> None:
    bench = assigned()
    bench.join_with("B", offer(maximum_version=0))
    only_new = offer(minimum_version=1, metadata_version=1)
    assert_refused(bench.beat("A", client_assignors=(only_new,)), "UNSUPPORTED_ASSIGNOR")
    assert bench.member("A").client_assignors == (offer(),)


def test_when_the_only_reader_leaves_a_brokers_assignor_takes_over() -> None:
    bench = ComputingBench()
    bench.join_with("A")
    bench.join_with("B", offer(maximum_version=0))
    bench.join_with("C", offer(minimum_version=1, maximum_version=2, metadata_version=1))
    assert bench.chosen == "A"
    bench.leave("A")
    bench.wait(0)
    assert (bench.chosen, bench.epochs) == (None, (4, 4))
    # No one is refused for what was so before.
    assert_accepted(bench.join_with("B", offer(maximum_version=0, reason=1)))


# -- which member --------------------------------------------------------------------------


def test_the_smallest_member_id_that_reads_everything_is_chosen() -> None:
    bench = ComputingBench()
    bench.join_with("B")
    bench.join_with("C")
    assert bench.chosen == "B"
    bench.join_with("A")
    assert bench.chosen == "B"  # Who has been chosen continues.


def test_a_chosen_member_that_can_no_longer_read_everything_is_replaced_before_it_has_begun() -> (
    None
):
    bench = ComputingBench()
    bench.join_with("A")
    assert bench.asks_to_compute("A")
    bench.join_with("B", offer(maximum_version=2, metadata_version=2))
    assert bench.chosen == "B"


def test_a_member_that_has_begun_goes_on_with_what_it_was_given() -> None:
    bench = computing()
    bench.join_with("B", offer(maximum_version=2, metadata_version=2))
    assert bench.chosen == "A"
    assert_accepted(bench.install("A", 1, {"A": "foo[0-2]"}))
    assert bench.epochs == (2, 1)
    assert bench.chosen == "B"


def test_the_member_is_told_until_it_is_done_and_its_time_runs_from_the_first_time_on() -> None:
    bench = ComputingBench()
    response = bench.join_with("A")
    assert not response.should_compute_assignment
    assert bench.timer("computation") is None
    assert bench.asks_to_compute("A")
    assert bench.timer_at("computation") == REBALANCE_TIMEOUT_MS
    bench.wait(1_000)
    assert bench.asks_to_compute("A")
    assert bench.timer_at("computation") == REBALANCE_TIMEOUT_MS - 1_000
    bench.prepare("A")
    assert bench.asks_to_compute("A")
    bench.install("A", 1, {"A": "foo[0-2]"})
    assert not bench.asks_to_compute("A")
    assert bench.timer("computation") is None


def test_only_the_chosen_member_is_told() -> None:
    bench = ComputingBench()
    bench.join_with("A")
    bench.join_with("B")
    assert not bench.asks_to_compute("B")
    assert bench.asks_to_compute("A")


def test_a_slow_member_is_replaced_by_the_next_one_and_not_fenced() -> None:
    bench = computing("B", "C")
    for slow, successor in ("AB", "BC", "CA"):
        bench.wait(REBALANCE_TIMEOUT_MS)
        assert bench.chosen == successor
        assert bench.timer("computation") is None  # Until it has been told.
        assert [m for m in "ABC" if bench.asks_to_compute(m)] == [successor]
        assert bench.timer_at("computation") == REBALANCE_TIMEOUT_MS
        assert slow in bench.group.members


def test_the_only_member_gets_its_time_again_and_keeps_what_it_was_given() -> None:
    bench = computing()
    bench.asks_to_compute("A")
    bench.wait(REBALANCE_TIMEOUT_MS)
    assert bench.chosen == "A"
    assert bench.timer_at("computation") == REBALANCE_TIMEOUT_MS
    assert_accepted(bench.install("A", 1, {"A": "foo[0-2]"}))
    assert bench.epochs == (1, 1)


def test_when_the_computing_member_leaves_another_one_is_chosen() -> None:
    bench = computing("B")
    bench.leave("A")
    bench.wait(0)
    assert bench.chosen == "B"
    assert bench.prepare("B").group_epoch == 3


def test_when_the_session_of_the_computing_member_ends_another_one_is_chosen() -> None:
    bench = computing("B", group_consumer_max_session_timeout_ms=60_000)
    bench.wait(20_000)
    bench.asks_to_compute("B")
    bench.wait(25_000)
    assert "A" not in bench.group.members
    assert bench.chosen == "B"


def test_a_static_member_that_leaves_for_a_while_does_not_compute() -> None:
    bench = ComputingBench()
    bench.join_with("A", instance_id="i-a")
    bench.join_with("B")
    assert bench.chosen == "A"
    bench.go_away("A", "i-a")
    bench.wait(0)
    assert bench.chosen == "B"


def test_when_all_who_could_compute_are_away_the_first_that_returns_does() -> None:
    bench = ComputingBench()
    bench.join_with("A", instance_id="i-a")
    bench.go_away("A", "i-a")
    bench.wait(0)
    assert bench.chosen is None
    bench.join_with("A2", instance_id="i-a")
    assert bench.chosen == "A2"


def test_the_successor_of_a_static_member_is_not_taken_for_it() -> None:
    bench = ComputingBench()
    bench.join_with("B", instance_id="i-b")
    assert bench.asks_to_compute("B")
    bench.prepare("B")
    bench.go_away("B", "i-b")
    bench.join_with("A", instance_id="i-b")
    assert bench.chosen == "A"
    assert bench.group.computation is not None
    assert bench.group.computation.step is ComputationStep.CHOSEN


def test_a_failover_forgets_the_choice_and_makes_it_anew() -> None:
    bench = computing("B")
    bench.restart()
    assert bench.chosen is None
    bench.wait(0)
    assert bench.chosen == "A"
    assert bench.group.computation is not None
    assert bench.group.computation.prepared is None
    assert bench.timer("computation") is None


# -- members of the classic protocol (coordinator §12.4) -----------------------------------


def join_classic(bench: ComputingBench, user_data: bytes | None) -> str:
    """A member of the classic protocol joins, whose one protocol is called like the assignor."""
    metadata = Subscription(topics=("foo",), user_data=user_data)
    request = JoinGroupRequest(
        group_id=GROUP_ID,
        member_id="",
        session_timeout_ms=10_000,
        protocols=(JoinGroupProtocol("own", metadata),),
        rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
    )
    member_id: str = bench.send(request).member_id
    assert bench.send(replace(request, member_id=member_id)).error_code.name == "NONE"
    bench.wait(0)
    return member_id


READS_USER_DATA = offer(minimum_version=-1)


def test_user_data_of_a_classic_member_is_metadata_of_version_minus_1() -> None:
    bench = ComputingBench()
    bench.join_with("A", READS_USER_DATA)
    classic_id = join_classic(bench, b"user data")
    assert bench.chosen == "A"
    rows = {m.member_id: m for m in bench.prepare("A").members}
    assert (rows[classic_id].metadata_version, rows[classic_id].metadata_bytes) == (
        -1,
        b"user data",
    )


def test_a_classic_member_that_no_one_reads_brings_a_brokers_assignor() -> None:
    bench = assigned()
    join_classic(bench, b"user data")
    assert (bench.chosen, bench.epochs) == (None, (2, 2))


@pytest.mark.parametrize(
    ("user_data", "assignor", "code"),
    [
        (b"user data", offer(), "INVALID_REQUEST"),
        (b"user data", READS_USER_DATA, "NONE"),
        (b"user data", offer("another"), "NONE"),
        (b"", offer(), "NONE"),
        (None, offer(), "NONE"),
    ],
)
def test_whoever_joins_classic_members_with_user_data_must_read_it(
    user_data: bytes | None, assignor: ClientAssignor, code: str
) -> None:
    bench = ComputingBench()
    bench.join_with("A", READS_USER_DATA)
    join_classic(bench, user_data)
    assert bench.join_with("B", assignor).error_code.name == code


def test_a_member_that_changes_to_the_classic_protocol_offers_what_it_says_there() -> None:
    bench = ComputingBench()
    bench.join_with("A", READS_USER_DATA)
    bench.join_with("B", READS_USER_DATA)
    request = JoinGroupRequest(
        group_id=GROUP_ID,
        member_id="B",
        session_timeout_ms=10_000,
        protocols=(JoinGroupProtocol("own", Subscription(topics=("foo",))),),
        rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
    )
    assert bench.send(request).error_code.name == "NONE"
    assert bench.member("B").client_assignors == ()
    assert bench.group.client_assignors == {"own": 1}


def test_a_replaced_range_is_a_value_of_its_own() -> None:
    assert offer().reads(0, 1)
    assert not offer().reads(-1, 0)
    assert not offer().reads(1, 2)
    assert replace(offer(), minimum_version=-1).reads(-1, 1)


def test_a_target_of_the_broker_takes_the_metadata_of_the_former_one_away() -> None:
    bench = assigned()
    assert bench.beat("A").assignment_metadata is not None
    bench.beat("A", client_assignors=())
    bench.wait(0)
    assert bench.wrote == "7A 6"
    response = bench.beat("A")
    assert (response.assignment, response.assignment_metadata) == (parts("foo[0-2]"), None)
    assert bench.group.target_metadata == {}
