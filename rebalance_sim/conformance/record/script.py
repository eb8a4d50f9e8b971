"""Scripts: steps that a broker is asked, as a file has them.

A script is a trace without answers: JSON or TOML with ``topics`` and ``steps``. Any recorded trace
is one, too. A step with ``at_ms`` waits until then; ``member_epoch = "current"`` is the epoch that
sent to the member last.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rebalance_sim.conformance.broker_shape import check_steps, check_topics
from rebalance_sim.conformance.broker_trace import read_json
from rebalance_sim.conformance.errors import TraceError

if TYPE_CHECKING:
    from rebalance_sim.conformance.record.session import Session

_WITHOUT_ANSWER = ("sleep", "create_topic", "create_partitions", "delete_topic", "restart_broker")
_CURRENT = "current"


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What to ask. ``topics``: partitions at the start."""

    name: str
    about: str
    topics: Mapping[str, int]
    steps: tuple[Mapping[str, Any], ...]

    @property
    def every_topic(self) -> set[str]:
        """Names of all topics that it has at some time."""
        created = {step["topic"] for step in self.steps if step["op"] == "create_topic"}
        return {*self.topics, *created}

    @property
    def restarts_broker(self) -> bool:
        """A step does; then nothing else can be recorded meanwhile."""
        return any(step["op"] == "restart_broker" for step in self.steps)

    def play(self, session: Session) -> None:
        """Carry out all steps."""
        epochs = _Epochs()
        for step in self.steps:
            asked = {key: step[key] for key in step if key not in ("at_ms", "response")}
            session.wait_until(step.get("at_ms", 0))
            epochs.note(step, session.do(epochs.in_this_recording(asked)))


def load_script(path: Path) -> Script:
    """Read a script. Raises TraceError with one line naming the place and the remedy."""
    data = _read_toml(path) if path.suffix == ".toml" else read_json(path)
    for key, kind in (("topics", dict), ("steps", list)):
        if not isinstance(data.get(key), kind):
            found = "nothing" if key not in data else type(data[key]).__name__
            raise TraceError(f"{path}: a script needs {key!r}, a {kind.__name__}; found {found}")
    check_topics(path, data["topics"])
    check_steps(path, [_as_recorded(step) for step in data["steps"]], data["topics"])
    return Script(
        name=path.stem,
        about=str(data.get("about", "")),
        topics=data["topics"],
        steps=tuple(data["steps"]),
    )


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TraceError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    except (ValueError, RecursionError) as error:  # of text, of TOML, of too many digits
        raise TraceError(f"{path}: is no TOML script: {error}") from error


def _as_recorded(step: Any) -> Any:
    """The step as it could stand in a trace, whose shape is checked."""
    if not isinstance(step, dict):
        return step
    step = {"at_ms": 0, **step}
    if step.get("op") not in _WITHOUT_ANSWER and "async" not in step:
        step["response"] = {}
    request = step.get("request")
    if isinstance(request, dict) and request.get("member_epoch") == _CURRENT:
        step["request"] = {**request, "member_epoch": 0}
    return step


def untimed(steps: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Recorded steps as they can be asked when some of them are left out: without their times, and
    with the member's current epoch wherever it was that."""
    answered: dict[str, int] = {}
    scripted = []
    for step in steps:
        asked = {key: step[key] for key in step if key not in ("at_ms", "response")}
        request = step.get("request", {})
        epoch = request.get("member_epoch", 0)
        if epoch > 0 and answered.get(request.get("member_id")) == epoch:
            asked["request"] = {**request, "member_epoch": _CURRENT}
        answer = step.get("response", {})
        if step["op"] == "heartbeat" and answer.get("error_code") == "none":
            answered[answer["member_id"]] = answer["member_epoch"]
        scripted.append(asked)
    return tuple(scripted)


class _Epochs:
    """Epochs of a script, and those that the broker gives out now.

    Kafka 4.1 begins a group at 1, Kafka 4.3 at 2. A recorded trace tells which it was: the
    difference is added to all its epochs.
    """

    def __init__(self) -> None:
        self._shift: int | None = None
        self._answered: dict[str, int] = {}

    def in_this_recording(self, step: dict[str, Any]) -> dict[str, Any]:
        request = step.get("request")
        if not isinstance(request, dict) or "member_epoch" not in request:
            return step
        epoch = request["member_epoch"]
        if epoch == _CURRENT:
            epoch = self._answered.get(request["member_id"], 0)
        elif epoch > 0:
            epoch += self._shift or 0
        return {**step, "request": {**request, "member_epoch": epoch}}

    def note(self, step: Mapping[str, Any], answer: Mapping[str, Any] | None) -> None:
        if step["op"] != "heartbeat" or answer is None or answer["error_code"] != "none":
            return
        self._answered[answer["member_id"]] = answer["member_epoch"]
        recorded = step.get("response", answer)
        if self._shift is None and recorded["error_code"] == "none":
            self._shift = answer["member_epoch"] - recorded["member_epoch"]
