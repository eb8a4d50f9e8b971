"""A client of a scenario may be of another version of its library (client Appendix A.1)."""

from __future__ import annotations

import pytest

from rebalance_sim.protocol.clients.java.consumer.java_consumer import ConsumerMember
from rebalance_sim.protocol.clients.kinds import CLASSIC, JAVA, KINDS, LIBRDKAFKA
from rebalance_sim.protocol.clients.versions import client_rules
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.scenarios.codec import encode
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import parse_scenario
from rebalance_sim.sim.client.client_kinds import make_member
from rebalance_sim.sim.client.client_processes import redeployed
from rebalance_sim.sim.client.client_spec import ClientSpec
from rebalance_sim.sim.faults.deployments import ClientRedeploy, RollingMigration

KAFKA = SEMANTICS["kafka-4.3"]


def repeats(version: str | None) -> bool:
    """Whether the member acknowledges in part again and again, as 4.3 does."""
    member = make_member(
        ClientSpec(name="a", version=version),
        group_id="group",
        member_id="m",
        semantics=KAFKA,
        jitter=lambda: 0.0,
        now_ms=0,
    )
    assert isinstance(member, ConsumerMember)
    return member.rules.repeats_partial_acknowledgement


def test_each_client_of_a_group_has_the_rules_of_its_own_version() -> None:
    assert [repeats(version) for version in (None, "4.3", "4.4")] == [True, True, False]


@pytest.mark.parametrize("kind", [JAVA, CLASSIC, LIBRDKAFKA])
def test_the_version_that_a_kind_is_changes_nothing(kind: str) -> None:
    """So what is stored runs as it did."""
    known = KINDS[kind]
    assert known.rules is not None
    plain = KAFKA.rules(known.rules)
    assert client_rules(known, None, KAFKA) is client_rules(known, known.version, KAFKA) is plain
    assert "version" not in encode(ClientSpec(name="a", kind=kind))


def test_a_defect_that_is_switched_on_is_there_in_every_version() -> None:
    rules = client_rules(KINDS[JAVA], "4.4", KAFKA.with_defects("KAFKA-16215"))
    assert rules is not None
    assert not rules.repeats_partial_acknowledgement
    assert rules.stays_in_flight_after_error


def test_a_version_that_the_library_does_not_have_is_refused_with_those_that_it_has() -> None:
    says = "version '4.4' of librdkafka is not known; known are: 2.16, 2.14"
    with pytest.raises(ValueError, match=says):
        ClientSpec(name="a", kind=LIBRDKAFKA, version="4.4")
    with pytest.raises(ValueError, match=f"to_{says}"):
        RollingMigration(at_ms=1, down_ms=1, to_kind=LIBRDKAFKA, to_version="4.4")
    with pytest.raises(
        ValueError, match=r"to_version '5' is not known; known are: 4.3, 4.4, 2.16, 2.14"
    ):
        ClientRedeploy(at_ms=1, client="a", down_ms=1, to_version="5")


@pytest.mark.parametrize(
    ("fault", "kind", "version"),
    [
        (ClientRedeploy(at_ms=1, client="a", down_ms=1, rack="r"), JAVA, "4.3"),
        (ClientRedeploy(at_ms=1, client="a", down_ms=1, to_version="4.4"), JAVA, "4.4"),
        (ClientRedeploy(at_ms=1, client="a", down_ms=1, to_kind=CLASSIC), CLASSIC, "4.3"),
        (ClientRedeploy(at_ms=1, client="a", down_ms=1, to_kind=LIBRDKAFKA), LIBRDKAFKA, None),
        (ClientRedeploy(at_ms=1, client="a", down_ms=1, to_version="2.16"), JAVA, None),
        (ClientRedeploy(at_ms=1, client="a", down_ms=1, to_version="2.8"), JAVA, None),
    ],
)
def test_a_deployment_changes_the_version_and_keeps_it_as_long_as_the_library_has_it(
    fault: ClientRedeploy, kind: str, version: str | None
) -> None:
    after = redeployed(ClientSpec(name="a", version="4.3"), fault.changes)
    assert (after.kind, after.version) == (kind, version)


def longest_unowned_ms(version: str) -> int:
    """The application of one of two members stays away from ``poll`` for 40 s."""
    result = run(
        parse_scenario(
            f"""
            name = "away"

            [world]
            seed = 1
            duration_ms = 70_000
            topics = [{{ name = "orders", partition_count = 4, records_per_second = 5 }}]
            faults = [{{ kind = "poll_stall", at_ms = 20_000, client = "a", duration_ms = 40_000 }}]

            [[world.clients]]
            name = "a"
            kind = "librdkafka"
            version = "{version}"
            topics = ["orders"]
            max_poll_interval_ms = 10_000

            [[world.clients]]
            name = "b"
            kind = "librdkafka"
            topics = ["orders"]
            """
        )
    )
    assert result.outcome == "ok", result.reason
    return int(result.metrics["unowned_partition_ms_max"])


def test_a_group_has_the_partitions_sooner_whose_member_leaves_while_it_is_away() -> None:
    """30 s after ``max.poll.interval.ms`` the application is back, long before the session ends."""
    assert longest_unowned_ms("2.14") < 10_000
    assert 29_000 < longest_unowned_ms("2.16") < 31_000
