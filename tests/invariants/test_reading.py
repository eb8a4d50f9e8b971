"""Only the shadow model writes: properties assign to nothing but their own private attributes.

What a property is given (the model, steps, entries, changes) and what it takes from there is
followed through assignments and loops; an assignment to it, or a call of a method that writes, is
reported. Values that a function makes itself, such as a new list, may be filled.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path

import pytest

from rebalance_sim.invariants.engine.discovery import INVARIANTS
from rebalance_sim.invariants.property import Property

FOLDER = Path(__file__).parents[2] / "invariants"
PROPERTIES = sorted((FOLDER / "properties").rglob("*.py"))

_THAT_READ = frozenset({"count", "index", "get", "items", "keys", "values", "fromkeys"})
_THAT_READ |= {"elements", "most_common", "total", "maxlen"}

OF_CONTAINERS = frozenset(
    name
    for kind in (list, set, dict, deque, Counter)
    for name in dir(kind)
    if not name.startswith("_") and not hasattr(frozenset, name) and name not in _THAT_READ
)
PASSED_ON = frozenset({"next", "min", "max", "cast", "getattr"})
"""Functions that return one of the things that they are given."""


def _root(node: ast.expr) -> str:
    """The name that an expression begins with; ``self.x`` counts as one."""
    while True:
        if isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and node.value.id == "self":
                return f"self.{node.attr}"
            node = node.value
        elif isinstance(node, ast.Subscript | ast.Starred):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        else:
            return node.id if isinstance(node, ast.Name) else ""


def _writers() -> frozenset[str]:
    """Methods of the model that change it: those that assign, and those that call one of them."""
    methods: dict[str, list[ast.FunctionDef]] = {}
    for path in (FOLDER / "model").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                for item in node.body:
                    if isinstance(item, ast.FunctionDef) and item.name != "__init__":
                        methods.setdefault(item.name, []).append(item)
    writers: frozenset[str] = frozenset()
    while True:
        found = frozenset(
            name
            for name, bodies in methods.items()
            if any(list(_writes(body, {"self"}, writers, into_self=True)) for body in bodies)
        )
        if found == writers:
            return writers
        writers = found


def _sources(node: ast.expr) -> Iterator[ast.expr]:
    """The expressions, one of which is the value of this one."""
    if isinstance(node, ast.IfExp):
        yield from _sources(node.body)
        yield from _sources(node.orelse)
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from _sources(value)
    elif isinstance(node, ast.NamedExpr):
        yield from _sources(node.value)
    elif (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in PASSED_ON
    ):
        for argument in node.args:
            yield from _sources(argument)
    elif isinstance(node, ast.GeneratorExp | ast.ListComp):
        yield from (generator.iter for generator in node.generators)
    else:
        yield node


def _names(target: ast.expr) -> Iterator[str]:
    yield from (n.id for n in ast.walk(target) if isinstance(n, ast.Name))


def _writes(
    function: ast.FunctionDef, given: set[str], writers: frozenset[str], *, into_self: bool = False
) -> Iterator[ast.AST]:
    """The places where a function writes into what it was ``given``."""
    seen = set(given)

    def is_given(node: ast.expr) -> bool:
        roots = {_root(source) for source in _sources(node)}
        return bool(roots & seen) or (into_self and any(r.startswith("self.") for r in roots))

    size = -1
    while size != len(seen):
        size = len(seen)
        for node in ast.walk(function):
            pairs: list[tuple[ast.expr, ast.expr]] = []
            if isinstance(node, ast.Assign):
                pairs = [(target, node.value) for target in node.targets]
            elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
                pairs = [(node.target, node.value)]
            elif isinstance(node, ast.For | ast.comprehension):
                iterated = node.iter
                if isinstance(iterated, ast.Call) and isinstance(iterated.func, ast.Name):
                    pairs = [(node.target, argument) for argument in iterated.args]
                else:
                    pairs = [(node.target, iterated)]
            for target, value in pairs:
                if isinstance(target, ast.Name | ast.Tuple) and is_given(value):
                    seen.update(_names(target))
    for node in ast.walk(function):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign | ast.Delete):
            targets = list(node.targets)
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        for target in targets:
            if isinstance(target, ast.Attribute | ast.Subscript) and is_given(target):
                yield target
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in writers | OF_CONTAINERS and is_given(node.func.value):
                yield node
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("setattr", "delattr")
            and is_given(node.args[0])
        ):
            yield node


WRITERS = _writers()


def written(source: str) -> list[str]:
    """What a module of properties writes into: each place in words."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            arguments = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
            given = {a.arg for a in arguments if a.arg not in ("self", "cls")} | {"self.model"}
            found += [
                f"{node.name}: {ast.unparse(place)}" for place in _writes(node, given, WRITERS)
            ]
    return found


def test_the_methods_that_write_are_known() -> None:
    """Or the test below would miss them."""
    assert {"apply", "note_change", "note_sent", "open_ledger", "truncate_to", "look"} <= WRITERS
    assert not {"ledger_of", "committed", "who", "acting_ledger", "prepared", "held"} & WRITERS


@pytest.mark.parametrize(
    "line",
    [
        "self.model.unparked.add(1)",
        "self.model.ledger_of(step.shard).classic_count = 1",
        "ledger = self.model.ledger_of(step.shard) if step else None; ledger.apply(())",
        "entry = next(e for e in self.model.clients.values()); entry.state = None",
        "for entry in sorted(change.members): entry.current.clear()",
        "del change.members['a']",
        "step.detail += 'x'",
        "setattr(step, 'detail', '')",
        "self.model.open_ledger(step.shard)",
    ],
)
def test_a_property_that_wrote_into_the_model_would_be_found(line: str) -> None:
    assert written(f"def on_change(self, step, change):\n    {line}")


@pytest.mark.parametrize(
    "line",
    [
        "self._last[step.shard.name] = step.at_ms",
        "names = []; names.append(step.detail)",
        "self._pending.setdefault(step.index, set()).add(1)",
        "held = change.before | change.after; held.discard(1)",
    ],
)
def test_a_property_may_remember_and_compute_what_it_likes(line: str) -> None:
    assert not written(f"def on_change(self, step, change):\n    {line}")


@pytest.mark.parametrize("path", PROPERTIES, ids=lambda path: path.stem)
def test_properties_write_nothing_but_their_own_memory(path: Path) -> None:
    assert written(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", PROPERTIES, ids=lambda path: path.stem)
def test_nobody_else_reads_the_memory_of_a_property(path: Path) -> None:
    """A private attribute is taken from ``self`` alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    foreign = [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
        and not (isinstance(node.value, ast.Call) and ast.unparse(node.value) == "super()")
    ]
    assert [name for name in foreign if not name.endswith("._asdict")] == []


# --- full checks -----------------------------------------------------------------------------

FREE = frozenset(
    {
        "acting_shard",
        "acting_group",
        "acting_picture",
        "group_in",
        "classic_group_in",
        "group_id",
        "rules",
        "config",
    }
    | {"name_of", "names_of", "who", "target_and_current"}
)
"""What a full check may take from the model: who serves, what that has in memory, and names."""


def relied_on(item: type[Property]) -> set[str]:
    """The parts of the model that the full check of a property can reach."""
    functions: dict[str, ast.FunctionDef] = {}
    for owner in (inspect.getmodule(item), *reversed(item.__mro__)):
        if owner not in (object, Property):
            body = ast.parse(textwrap.dedent(inspect.getsource(owner)))  # type: ignore[arg-type]
            nodes = body.body[0].body if isinstance(owner, type) else body.body  # type: ignore[attr-defined]
            functions.update({n.name: n for n in nodes if isinstance(n, ast.FunctionDef)})
    names, reached, parts = ["full"], set(), set()
    while names:
        name = names.pop()
        if name in reached or name not in functions:
            continue
        reached.add(name)
        for node in ast.walk(functions[name]):
            if isinstance(node, ast.Attribute):
                if ast.unparse(node.value) in ("self.model", "model"):
                    parts.add(node.attr)
                names.append(node.attr)
            elif isinstance(node, ast.Name):
                names.append(node.id)
    return parts - FREE


@pytest.mark.parametrize(
    "item", [p for p in INVARIANTS if p.judges_states()], ids=lambda item: item.id
)
def test_a_full_check_judges_the_world_or_says_what_it_relies_on(item: type[Property]) -> None:
    assert relied_on(item) == set(item.relies_on)
