"""Writes the parts of these pages that follow from the code.

``python docs/generate.py`` rewrites every part between ``<!-- generated: NAME -->`` and
``<!-- end -->``, and the page of properties as a whole; tests keep them in step.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints

from rebalance_sim.protocol.classic.classic_states import TRANSITIONS as CLASSIC_TRANSITIONS
from rebalance_sim.protocol.clients.common.member_states import ComputingState
from rebalance_sim.protocol.clients.java.classic.classic_member_states import (
    LEGAL_CLASSIC_TRANSITIONS,
    ClassicState,
)
from rebalance_sim.protocol.clients.java.classic.reactions import (
    REACTIONS,
    UNLISTED,
    Reaction,
    Reset,
)
from rebalance_sim.protocol.clients.java.consumer.computing import COMPUTING_TRANSITIONS
from rebalance_sim.protocol.consumer.computation import (
    COMPUTATION_TRANSITIONS,
    ComputationEvent,
    ComputationStep,
)
from rebalance_sim.protocol.consumer.reconciliation import TRANSITIONS, Effect, Situation
from rebalance_sim.protocol.defects import DEFECTS
from rebalance_sim.protocol.migration.migration_rules import MigrationRules
from rebalance_sim.protocol.versions.semantics import RELEASES, SEMANTICS
from rebalance_sim.protocol.wire.records import MemberState
from rebalance_sim.scenarios.codec import kind_of
from rebalance_sim.scenarios.compare import PROTOCOLS
from rebalance_sim.scenarios.profile import (
    CoincidenceRule,
    FaultRule,
    Profile,
    Sizes,
    Timings,
    load_profile,
)
from rebalance_sim.scenarios.profile_file import PROFILES
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.spark.store.tables import COMPARISON, OUTCOMES, SCHEMAS

sys.path.insert(0, str(Path(__file__).parent))
import detection_tables
import experiment_tables
import hunt_tables
import key_tables
import property_page
import rule_tables
from experiment_tables import AWAY, FAILOVER, RECIPES, MeasuredExperiment
from markdown_lines import table

__all__ = ["PAGES", "regenerate"]

PAGES = tuple(
    Path(__file__).parent / name
    for name in (
        "cookbook.md",
        "detection.md",
        "experiments.md",
        "failover.md",
        "explore.md",
        "hunt.md",
        "keys.md",
        "pairs.md",
        "plugins.md",
        "protocol.md",
        "results.md",
        "scenarios.md",
        "../README.md",
    )
)

_RULES: Mapping[str, type[MigrationRules]] = {
    name: SEMANTICS[f"{name}-clean"].coordinator
    for name in (*(release.name for release in reversed(tuple(RELEASES.values()))), *SEMANTICS)
    if f"{name}-clean" in SEMANTICS
}
"""The rules of each version without its shipped defects: releases, the newest first, then texts."""

_COORDINATORS = {
    name: rules
    for index, (name, rules) in enumerate(_RULES.items())
    if rules not in list(_RULES.values())[:index]
}
"""Those of them that differ."""

_BLOCK = re.compile(r"(<!-- generated: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def regenerate(page: str) -> str:
    """The text of a page with every generated part written again.

    Raises KeyError for a part that no one generates.
    """
    return _BLOCK.sub(lambda found: f"{found[1]}{_PARTS[found[2]]()}{found[3]}", page)


def transition_diagram() -> str:
    """The reconciliation table as a Mermaid state diagram; what changes nothing is left out."""
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> STABLE: joins"]
    for (state, situation), transition in TRANSITIONS.items():
        if transition.effect is not Effect.NOTHING:
            arrow = f"{_short(state)} --> {_short(transition.next_state)}"
            lines.append(f"    {arrow}: {_words(situation)}")
    return "\n".join([*lines, "```", ""])


def transition_table() -> str:
    """The reconciliation table as it stands in the code."""
    rows = [
        (_short(state), _words(situation), _short(transition.next_state), transition.effect.value)
        for (state, situation), transition in TRANSITIONS.items()
    ]
    return table(("state", "situation", "next state", "effect"), rows)


def situation_table() -> str:
    """What the situations mean."""
    return table(("situation", "meaning"), [(_words(s), s.value) for s in Situation])


def classic_table() -> str:
    """The states of a classic group as they stand in the code."""
    rows = [
        (state.value, event.value, row.next_state.value, f"+{row.generation_step}")
        for (state, event), row in CLASSIC_TRANSITIONS.items()
    ]
    return table(("state", "event", "next state", "generation"), rows)


def classic_member_table() -> str:
    """The states of a classic member as they stand in the code."""
    rows = [
        (state.value, ", ".join(s.value for s in ClassicState if s in following))
        for state, following in LEGAL_CLASSIC_TRANSITIONS.items()
    ]
    return table(("state of a member", "next states"), rows)


def reaction_table() -> str:
    """How a classic member reacts to errors: each error that a request's list has."""
    errors = sorted({code for row in REACTIONS.values() for code in row})
    rows = [
        (code.name, *(_reaction(REACTIONS[api].get(code)) for api in REACTIONS)) for code in errors
    ]
    others = ("any other", *(_reaction(UNLISTED[api]) for api in REACTIONS))
    return table(("error", *(api.value for api in REACTIONS)), [*rows, others])


def _reaction(reaction: Reaction | None) -> str:
    if reaction is None:
        return "as any other"
    what = [] if reaction.reset is Reset.NOTHING else [f"forget {reaction.reset.value}"]
    what += ["forget the coordinator"] if reaction.forgets_coordinator else []
    return "; ".join([*what, reaction.then.value])


def computation_diagram() -> str:
    """The computation of a client-side target as a Mermaid state diagram."""
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> NONE"]
    for (step, event), after in COMPUTATION_TRANSITIONS.items():
        if after is not step:
            lines.append(f"    {step.name} --> {after.name}: {event.name.lower()}")
    return "\n".join([*lines, "```", ""])


def computation_table() -> str:
    """The computation table as it stands in the code, and what its words mean."""
    rows = [
        (step.name, event.name.lower(), after.name)
        for (step, event), after in COMPUTATION_TRANSITIONS.items()
    ]
    words = [(one.name, one.value) for one in ComputationStep]
    words += [(one.name.lower(), one.value) for one in ComputationEvent]
    return table(("step", "event", "next step"), rows) + "\n" + table(("word", "meaning"), words)


def computing_table() -> str:
    """What a member that computes waits for, and where it goes from there."""
    rows = [
        (state.name, state.value, ", ".join(s.name for s in ComputingState if s in following))
        for state, following in COMPUTING_TRANSITIONS.items()
    ]
    return table(("state", "waits for", "next states"), rows)


def version_table() -> str:
    """The semantics that a scenario may name."""
    rows = [(f"`{name}`", semantics.about) for name, semantics in SEMANTICS.items()]
    return table(("semantics", "rules"), rows)


def setting_table() -> str:
    """Rules that are plain values, where versions differ."""
    rows = []
    inherited = MigrationRules.__mro__
    for name, value in ((n, v) for rules in inherited for n, v in vars(rules).items()):
        values = [getattr(rules, name) for rules in _COORDINATORS.values()]
        if isinstance(value, bool | int) and len(set(values)) > 1:
            rows.append((f"`{name}`", *(_value(v) for v in values)))
    return table(("rule", *_COORDINATORS), rows)


def method_table() -> str:
    """Rules that are methods, where a version overrides one."""
    rows = []
    for name in dir(MigrationRules):
        methods = [getattr(rules, name) for rules in _COORDINATORS.values()]
        if not name.startswith("_") and callable(methods[0]) and len(set(methods)) > 1:
            rows.append((f"`{name}`", *_summaries(methods)))
    return table(("rule", *_COORDINATORS), rows)


def defect_table() -> str:
    """The defects that each version shipped with."""
    rows = []
    for version in _RULES:
        names = sorted(SEMANTICS[version].shipped_defects)
        if names:
            rows.append((f"`{version}`", ", ".join(f"`{name}`" for name in names)))
    return table(("version", "shipped with"), rows)


def outcome_table() -> str:
    """How a run may end, and what a sweep says of one that did not."""
    return table(("outcome", "meaning"), [(f"`{n}`", text) for n, text in OUTCOMES.items()])


def column_tables() -> str:
    """The tables of a sweep, and that of a comparison: every column, as its schema has it."""
    parts = []
    above: list[tuple[str, str, str]] = []
    for kind, schema in {**SCHEMAS, "comparison": COMPARISON}.items():
        rows = [(f"`{f.name}`", str(f.type), f.metadata[b"doc"].decode()) for f in schema]
        about = schema.metadata[b"doc"].decode()
        same = [row for row in rows if row in above]
        known = f" As above: {', '.join(name for name, _, _ in same)}." if same else ""
        parts.append(f"### {kind}\n\n{about[0].upper()}{about[1:]}.{known}\n")
        parts.append(table(("column", "type", "meaning"), [r for r in rows if r not in same]))
        above += rows
    return "\n" + "\n".join(parts) + "\n"


def profile_table() -> str:
    """Every profile, with its own description."""
    rows = [(f"`{name}`", load_profile(name).description) for name in PROFILES]
    return table(("profile", "scenarios"), rows)


def profile_keys() -> str:
    """Every key of a profile: the type of its value, and what it is unless it is given."""
    rows = []
    for name, kind in (
        ("", Profile),
        ("[sizes]", Sizes),
        ("[timings]", Timings),
        ("[[faults]]", FaultRule),
        ("[[coincidences]]", CoincidenceRule),
    ):
        hints = get_type_hints(kind)
        for item in dataclasses.fields(kind):
            if dataclasses.is_dataclass(hints[item.name]) or item.name in _TABLES:
                continue
            is_required = item.default is dataclasses.MISSING
            default = "**required**" if is_required else f"`{_plain(item.default)}`"
            if kind is Profile and is_required:
                default = "that of the file"
            rows.append((name, f"`{item.name}`", _TYPES[hints[item.name]], default))
        if kind is FaultRule:
            rows += _keys_of_kinds()
    rows.append(("[features]", "see `Features` in `scenarios/profile.py`", "probability", "`0.0`"))
    return table(("table", "key", "value", "unless given"), rows)


def _keys_of_kinds() -> list[tuple[str, str, str, str]]:
    """The keys of ``[[faults]]`` that only some kinds have."""
    return [
        ("[[faults]]", f"`{item.name}` of `{kind}`", "range `[a, b]`", f"`{_plain(item.default)}`")
        for kind, rule in FaultRule.kinds().items()
        for item in dataclasses.fields(rule)
        if "drawn" in item.metadata
    ]


_TABLES = ("faults", "coincidences")
_TYPES: Mapping[Any, str] = {
    str: "text",
    float: "probability",
    tuple[int, int]: "range `[a, b]`",
    tuple[int, ...]: "list of numbers",
    tuple[str, ...]: "list of names",
}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def compared_table() -> str:
    """The protocols that can be compared."""
    rows = [(f"`{protocol.name}`", protocol.title) for protocol in PROTOCOLS.values()]
    return table(("protocol", "what all clients speak"), rows)


def fault_table() -> str:
    """Every kind of fault, with the first sentence of what it stands for."""
    rows = []
    for kind in Fault.kinds().values():
        sentence = _summaries([kind])[0].replace("``", "`").split(". ")[0].rstrip(".")
        keys = (f"`{f.name}`" for f in dataclasses.fields(kind) if f.name != "at_ms")
        rows.append((f"`{kind_of(kind)}`", sentence, ", ".join(keys)))
    return table(("kind", "what happens", "further keys"), rows)


def defects_beside_properties() -> str:
    """The defects that violate no property, and what they do instead."""
    rows = [
        (f"`{one.id}`", one.title, one.unobserved or f"`{one.measured}` grows")
        for one in sorted(DEFECTS.values(), key=lambda one: one.id)
        if one.unobserved or one.measured
    ]
    return table(("defect", "what goes wrong", "shows as"), rows)


_PARTS: Mapping[str, Callable[[], str]] = {
    "transition-diagram": transition_diagram,
    "transition-table": transition_table,
    "situation-table": situation_table,
    "classic-table": classic_table,
    "classic-member-table": classic_member_table,
    "reaction-table": reaction_table,
    "computation-diagram": computation_diagram,
    "computation-table": computation_table,
    "computing-table": computing_table,
    "version-table": version_table,
    "setting-table": setting_table,
    "method-table": method_table,
    "defect-table": defect_table,
    "outcome-table": outcome_table,
    "rules-table": lambda: table(("class", "module", "decisions"), rule_tables.rules_rows()),
    "column-tables": column_tables,
    "profile-table": profile_table,
    "profile-keys": profile_keys,
    "compared-table": compared_table,
    "away-head": AWAY.head,
    "away-headlines": partial(AWAY.medians_of, *experiment_tables.HEADLINES),
    "away-all": AWAY.all_medians,
    "fault-table": fault_table,
    "defects-beside-properties": defects_beside_properties,
    "defect-summary": detection_tables.defect_summary,
    "defect-results": detection_tables.defect_results,
    "unnoticed-defects": detection_tables.unnoticed_defects,
    "mutant-summary": detection_tables.mutant_summary,
    "shipped-summary": detection_tables.shipped_summary,
    "shipped-production": lambda: detection_tables.shipped_summary("shipped-production"),
    "reading-summary": detection_tables.reading_summary,
    "failover-head": FAILOVER.head,
    "failover-plots": FAILOVER.figure_lines,
    "failover-effects": FAILOVER.effects,
    "failover-restart": partial(FAILOVER.medians, experiment_tables.RESTART),
    "failover-unowned": partial(FAILOVER.medians, "unowned_partition_ms"),
    "failover-longest": partial(FAILOVER.medians, "unowned_partition_ms_max"),
    "failover-stopped": partial(FAILOVER.medians, "group_stopped_ms"),
    "failover-rebalance": partial(FAILOVER.medians, "rebalance_ms_max"),
    "pair-summary": hunt_tables.pair_summary,
    "unvisited-requests": hunt_tables.unvisited_requests,
    "rare-operations": hunt_tables.rare_operations,
    "unvisited-faults": hunt_tables.unvisited_faults,
    "hunt-defects": hunt_tables.hunt_defects,
    "hunt-reach": hunt_tables.hunt_reach,
    "explored-scopes": hunt_tables.explored_scopes,
    "explored-issues": hunt_tables.explored_issues,
    **{f"cookbook-{name}": MeasuredExperiment(name).recipe for name in RECIPES},
    **{part: partial(key_tables.key_table, path) for part, path in key_tables.SECTIONS.items()},
}


def _short(state: MemberState) -> str:
    return state.name.removesuffix("_PARTITIONS")


def _words(situation: Situation) -> str:
    return situation.name.lower().replace("_", " ")


def _value(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _summaries(methods: list[Any]) -> list[str]:
    """The first paragraph of each docstring; a version that inherits its neighbour's says so."""
    texts: list[str] = []
    for index, method in enumerate(methods):
        if index and method is methods[index - 1]:
            texts.append("the same")
        else:
            texts.append(" ".join((inspect.getdoc(method) or "").split("\n\n")[0].split()))
    return texts


if __name__ == "__main__":
    (Path(__file__).parent / "properties.md").write_text(
        property_page.as_markdown(), encoding="utf-8"
    )
    for path in PAGES:
        path.write_text(regenerate(path.read_text(encoding="utf-8")), encoding="utf-8")
