"""docs/gateway.md names every key and action of rules, and every scenario counts."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from rebalance_sim.gateway.certify.scenarios import SCENARIOS
from rebalance_sim.gateway.rules import Action, Rule
from rebalance_sim.gateway.settings import GatewaySettings

PAGE = (Path(__file__).parents[2] / "docs" / "gateway.md").read_text(encoding="utf-8")


def test_every_key_and_action_stands_on_the_page():
    keys = {field.name for one in (Rule, GatewaySettings) for field in fields(one)}
    named = set(re.findall(r"`([a-z_]+)`", PAGE)) | set(re.findall(r"^\[*(\w+)\]*", PAGE, re.M))
    assert keys | {action.value for action in Action} <= named


def test_the_page_has_the_number_of_scenarios():
    assert f"through {len(SCENARIOS)} scenarios" in PAGE
