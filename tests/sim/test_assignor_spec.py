"""What a scenario may say about client-side assignors, and in which worlds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from worlds import client, spec

from rebalance_sim.protocol.assignors.client_side import StreamsAssignor
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.sim.client.assignor_spec import ClientAssignorsSpec, StreamsSpec
from rebalance_sim.sim.client.client_assignors import make_assignors
from rebalance_sim.sim.delays import DelaySpec


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"names": ()}, "names must name at least one assignor"),
        ({"names": ("uniform",)}, "'uniform' is not known; known are: streams, sticky, range"),
        ({"names": ("range", "range")}, "names must not name an assignor twice"),
        ({"maximum_version": 2}, "versions must be in order"),
        ({"minimum_version": 1, "metadata_version": 0}, "versions must be in order"),
        ({"streams": StreamsSpec()}, "streams has settings for an assignor that is not among"),
    ],
)
def test_a_specification_that_contradicts_itself_is_refused(
    fields: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        ClientAssignorsSpec(**fields)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"process_id": ""}, "process_id must not be empty"),
        ({"state_records": -1}, "state_records must be >= 0"),
        ({"restore_records_per_second": 0}, "restore_records_per_second must be >= 1"),
        ({"max_warmup_replicas": 0}, "max_warmup_replicas must be >= 1"),
    ],
)
def test_streams_settings_out_of_range_are_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        StreamsSpec(**fields)


def test_only_the_text_of_the_kip_has_such_assignors() -> None:
    offering = client("a", client_assignors=ClientAssignorsSpec())
    with pytest.raises(
        ValueError, match=r"a has client_assignors, which the semantics 'kafka-4\.4'"
    ):
        spec(offering)
    assert spec(offering, semantics="kip-848").clients == (offering,)


def test_a_client_has_assignors_of_one_side_and_of_one_kind() -> None:
    offers = ClientAssignorsSpec()
    with pytest.raises(ValueError, match="server_assignor and client_assignors exclude"):
        client("a", client_assignors=offers, server_assignor="range")
    with pytest.raises(ValueError, match="a client of kind 'librdkafka' has none"):
        client("a", client_assignors=offers, kind="librdkafka")


def test_a_client_writes_its_newest_version_unless_told_otherwise() -> None:
    assert ClientAssignorsSpec().version == 1
    assert ClientAssignorsSpec(maximum_version=0).version == 0
    assert ClientAssignorsSpec(metadata_version=0).version == 0


def test_assignors_are_made_in_the_order_of_preference_with_their_settings() -> None:
    settings = StreamsSpec(process_id="p", client_tags={"zone": "x"}, num_standby_replicas=2)
    offers = ClientAssignorsSpec(
        names=("range", "streams", "sticky"), metadata_version=0, streams=settings
    )
    first, streams, last = make_assignors("a", offers, SEMANTICS["kip-848"])
    assert (first.name, last.name) == ("range", "sticky")
    assert streams == StreamsAssignor(
        process_id="p",
        client_tags={"zone": "x"},
        config=settings.config(),
        metadata_version=0,
    )
    (nameless,) = make_assignors(
        "a", replace(offers, names=("streams",), streams=None), SEMANTICS["kip-848"]
    )
    assert isinstance(nameless, StreamsAssignor)
    assert nameless.process_id == "a"
    assert make_assignors("a", None, SEMANTICS["kip-848"]) == ()


def test_a_delay_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(ValueError, match=r"max_ms \(1\) must be >= min_ms \(2\)"):
        DelaySpec(min_ms=2, max_ms=1)
