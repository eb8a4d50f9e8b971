"""What scenarios are generated for: as a value, and as its text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.variant import Variant

NAMES = st.text("abcz-_.0123456789", min_size=1)


@given(NAMES, st.just("") | NAMES, st.just("") | NAMES, st.lists(NAMES, max_size=3))
def test_a_variant_is_what_its_text_says(
    profile: str, semantics: str, protocol: str, repairs: list[str]
) -> None:
    variant = Variant(profile, semantics, protocol, tuple(repairs))
    assert Variant.of(str(variant)) == variant
    assert Variant.of(variant) is variant


@pytest.mark.parametrize(
    "text",
    ["", "@kafka-4.1", "+eager", "faulty@", "faulty+", "a+b@c", "a@b@c", "~a", "a~", "a+b~c"],
)
def test_a_text_that_names_no_variant_is_refused(text: str) -> None:
    with pytest.raises(ScenarioError, match="names no profile"):
        Variant.of(text)


def test_a_variant_and_its_text_make_the_same_scenario() -> None:
    variant = Variant("calm", "kafka-4.1", "eager")
    assert generate(variant, 3) == generate("calm@kafka-4.1+eager", 3)
    assert generate(variant, 3) != generate(variant.speaking("cooperative"), 3)
