"""Random streams: independent of each other, of the order of creation, and of the process."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from rebalance_sim.sim.spec import DelaySpec
from rebalance_sim.sim.streams import Streams, delay_sampler


def draws(stream: Random, count: int = 5) -> list[float]:
    return [stream.random() for _ in range(count)]


def test_a_stream_depends_on_seed_and_name_only() -> None:
    one, other = Streams(7), Streams(7)
    other.get("latency/b").random()
    other.get("latency/c").random()
    assert draws(one.get("latency/a")) == draws(other.get("latency/a"))


def test_streams_of_other_names_and_seeds_differ() -> None:
    found = [draws(Streams(seed).get(name)) for seed in (1, 2) for name in ("a", "b", "a/b")]
    assert len({tuple(row) for row in found}) == 6


def test_a_stream_goes_on_where_it_was() -> None:
    streams = Streams(1)
    first = streams.get("a").random()
    assert streams.get("a").random() != first
    assert draws(Streams(1).get("a"), 2)[0] == first


@given(
    low=st.integers(0, 50),
    span=st.integers(0, 50),
    tail=st.integers(0, 100),
    least=st.integers(0, 80),
    seed=st.integers(0, 1_000),
)
def test_a_delay_stays_within_its_bounds(
    low: int, span: int, tail: int, least: int, seed: int
) -> None:
    spec = DelaySpec(min_ms=low, max_ms=low + span, tail_ms=tail)
    draw = delay_sampler(spec, Random(seed), least_ms=least)
    for _ in range(30):
        delay = draw()
        assert delay >= max(low, least)
        if tail == 0:
            assert delay <= max(low + span, least)


def test_a_uniform_delay_takes_every_value() -> None:
    draw = delay_sampler(DelaySpec(min_ms=3, max_ms=6), Random(1))
    assert {draw() for _ in range(300)} == {3, 4, 5, 6}


def test_a_tail_has_about_the_mean_it_was_given() -> None:
    draw = delay_sampler(DelaySpec(min_ms=10, tail_ms=100), Random(1))
    mean = sum(draw() for _ in range(20_000)) / 20_000
    assert 105 < mean < 114


def test_a_constant_delay_draws_nothing() -> None:
    stream = Random(1)
    before = stream.getstate()
    assert delay_sampler(DelaySpec(min_ms=4), stream)() == 4
    assert stream.getstate() == before
