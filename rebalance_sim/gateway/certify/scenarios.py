"""The scenarios: what clients and coordinator do, and what has to come of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rebalance_sim.gateway.certify.trial import PARTITIONS, TOPIC, Trial
from rebalance_sim.gateway.rules import Action, Rule

SESSION_S = 6
"""Of members of the consumer protocol; classic members say themselves what theirs is."""
_LEAVE_S = 4.0
"""Sooner than any session ends."""
_LOST_MS = 3_000
"""How long after a lost answer its connection is closed."""


class Scenario(NamedTuple):
    """``script`` raises DidNotHold. ``is_static``: it needs a command with ``{instance_id}``.
    ``seed``: of the draws of its rules."""

    name: str
    about: str
    script: Callable[[Trial], None]
    rules: tuple[Rule, ...] = ()
    is_static: bool = False
    seed: int = 0


# -- scripts ---------------------------------------------------------------------------------------


def _one(trial: Trial) -> None:
    trial.start()
    trial.settles(1)
    trial.consumes()


def _two(trial: Trial) -> None:
    trial.start(2)
    trial.settles(2)
    trial.consumes()


def _join_later(trial: Trial) -> None:
    _one(trial)
    trial.start()
    trial.settles(2)


def _more_than_partitions(trial: Trial) -> None:
    trial.start(PARTITIONS + 1)
    trial.has_members(PARTITIONS + 1)
    trial.consumes()


def _leave_last(trial: Trial) -> None:
    _one(trial)
    trial.stop()
    trial.is_empty(_LEAVE_S)


def _leave_one(trial: Trial) -> None:
    _two(trial)
    trial.stop()
    trial.has_members(1, _LEAVE_S + SESSION_S)
    trial.consumes()


def _leave_and_return(trial: Trial) -> None:
    _leave_last(trial)
    trial.start()
    trial.settles(1)


def _rolling_restart(trial: Trial) -> None:
    _two(trial)
    for number in range(2):
        trial.stop(number)
        trial.start()
        trial.has_members(2)
        trial.consumes()


def _kill_one(trial: Trial) -> None:
    _two(trial)
    trial.kill()
    trial.settles(1)


def _kill_and_restart(trial: Trial) -> None:
    _two(trial)
    trial.kill()
    trial.start()
    trial.settles(2)


def _kill_all(trial: Trial) -> None:
    _two(trial)
    trial.kill(0)
    trial.kill(1)
    trial.start(2)
    trial.settles(2)


def _short_pause(trial: Trial) -> None:
    _two(trial)
    trial.pause(0, 2)
    trial.settles(2)


def _long_pause(trial: Trial) -> None:
    _two(trial)
    trial.pause(0, 2 * SESSION_S)
    trial.settles(2)


def _pause_alone(trial: Trial) -> None:
    _one(trial)
    trial.pause(0, 2 * SESSION_S)
    trial.settles(1)


def _static(trial: Trial) -> None:
    trial.start(instance_id="one")
    trial.start(instance_id="two")
    trial.settles(2)


def _static_restart(trial: Trial) -> None:
    _static(trial)
    trial.stop()
    trial.start(instance_id="one")
    trial.settles(2)


def _static_kill(trial: Trial) -> None:
    _static(trial)
    trial.kill()
    trial.start(instance_id="one")
    trial.settles(2)


def _leave_unheard(trial: Trial) -> None:
    _one(trial)
    trial.broker.rules.add(api="LeaveGroup", action="close")
    trial.broker.rules.add(api="ConsumerGroupHeartbeat", action="close", times=0)
    trial.stop()


def _move(trial: Trial) -> None:
    _two(trial)
    trial.broker.move_coordinator()
    trial.sleep(1)
    trial.settles(2)


def _move_slowly(trial: Trial) -> None:
    _two(trial)
    trial.broker.move_coordinator(load_ms=3_000)
    trial.sleep(4)
    trial.settles(2)


def _move_often(trial: Trial) -> None:
    _two(trial)
    for _ in range(3):
        trial.broker.move_coordinator(load_ms=200)
        trial.sleep(1)
    trial.settles(2)


def _move_with_losses(trial: Trial) -> None:
    _two(trial)
    trial.broker.move_coordinator(lost_records=6)
    trial.sleep(1)
    trial.settles(2)


def _move_as_one_joins(trial: Trial) -> None:
    _one(trial)
    trial.start()
    trial.broker.rules.add(api="JoinGroup", action="move_coordinator", load_ms=500)
    trial.broker.rules.add(
        api="ConsumerGroupHeartbeat", action="move_coordinator", load_ms=500, nth=2
    )
    trial.settles(2)


def _connections_close(trial: Trial) -> None:
    _two(trial)
    trial.broker.close_connections("*")
    trial.sleep(1)
    trial.settles(2)


def _more_partitions(trial: Trial) -> None:
    _two(trial)
    trial.broker.set_topic(TOPIC, PARTITIONS + 2)
    trial.consumes()


def _topic_again(trial: Trial) -> None:
    _one(trial)
    trial.broker.delete_topic(TOPIC)
    trial.sleep(1)
    trial.broker.set_topic(TOPIC, PARTITIONS)
    trial.sleep(1)
    trial.consumes()


def _topic_later(trial: Trial) -> None:
    trial.broker.delete_topic(TOPIC)
    trial.start()
    trial.sleep(2)
    trial.broker.set_topic(TOPIC, PARTITIONS)
    trial.consumes()


# -- rules -----------------------------------------------------------------------------------------


def _both(
    action: Action, *, classic: str, nth: int, consumer_nth: int, **keys: object
) -> tuple[Rule, ...]:
    """The same for clients of both protocols."""
    return (
        _rule(action, classic, nth, **keys),
        _rule(action, "ConsumerGroupHeartbeat", consumer_nth, **keys),
    )


def _rule(action: Action, api: str, nth: int = 1, **keys: object) -> Rule:
    return Rule(action=action, api=api, nth=nth, **keys)  # type: ignore[arg-type]


def _join(action: Action, **keys: object) -> tuple[Rule, ...]:
    return _both(action, classic="JoinGroup", nth=1, consumer_nth=1, **keys)


def _beat(action: Action, **keys: object) -> tuple[Rule, ...]:
    return _both(action, classic="Heartbeat", nth=2, consumer_nth=4, **keys)


def _of(action: Action, api: str, **keys: object) -> tuple[Rule, ...]:
    return (_rule(action, api, **keys),)  # type: ignore[arg-type]


_A = Action

SCENARIOS: tuple[Scenario, ...] = (
    Scenario("join.one", "one member reads everything", _one),
    Scenario("join.two", "two members share the partitions", _two),
    Scenario("join.later", "a second member joins a running one", _join_later),
    Scenario("join.idle", "more members than partitions", _more_than_partitions),
    Scenario("leave.last", "the last member leaves the group when it ends", _leave_last),
    Scenario("leave.one", "a member leaves, the other takes over", _leave_one),
    Scenario("leave.return", "a member leaves and comes back", _leave_and_return),
    Scenario("leave.rolling", "both are restarted, one after the other", _rolling_restart),
    Scenario("leave.unheard", "it ends although its leave is not heard", _leave_unheard),
    Scenario("kill.one", "one is killed, the other takes over", _kill_one),
    Scenario("kill.restart", "one is killed and restarted at once", _kill_and_restart),
    Scenario("kill.all", "all are killed and restarted", _kill_all),
    Scenario("pause.short", "one stands still for less than its session", _short_pause),
    Scenario("pause.long", "one stands still, and is removed meanwhile", _long_pause),
    Scenario("pause.alone", "the only one stands still, and is removed", _pause_alone),
    Scenario("static.restart", "a static member is restarted", _static_restart, is_static=True),
    Scenario(
        "static.kill", "a static member is killed and restarted", _static_kill, is_static=True
    ),
    Scenario(
        "lost.join",
        "the first answer to a join is lost",
        _two,
        _join(_A.LOSE_ANSWER, delay_ms=_LOST_MS),
    ),
    Scenario(
        "lost.sync",
        "an answer to SyncGroup is lost",
        _two,
        _of(_A.LOSE_ANSWER, "SyncGroup", delay_ms=_LOST_MS),
    ),
    Scenario(
        "lost.heartbeat",
        "an answer to a heartbeat is lost",
        _two,
        _beat(_A.LOSE_ANSWER, delay_ms=_LOST_MS),
    ),
    Scenario(
        "lost.commit",
        "an answer to a commit is lost",
        _one,
        _of(_A.LOSE_ANSWER, "OffsetCommit", delay_ms=_LOST_MS),
    ),
    Scenario(
        "lost.fetch",
        "an answer with offsets is lost",
        _one,
        _of(_A.LOSE_ANSWER, "OffsetFetch", delay_ms=_LOST_MS),
    ),
    Scenario(
        "lost.find",
        "an answer to FindCoordinator is lost",
        _one,
        _of(_A.LOSE_ANSWER, "FindCoordinator", delay_ms=_LOST_MS),
    ),
    Scenario(
        "lost.request", "a join is lost on its way", _two, _join(_A.SILENCE, delay_ms=_LOST_MS)
    ),
    Scenario("close.join", "the connection closes after a join", _two, _join(_A.CLOSE_AFTER)),
    Scenario("close.heartbeat", "the connection closes at a heartbeat", _two, _beat(_A.CLOSE)),
    Scenario(
        "close.commit", "the connection closes at a commit", _one, _of(_A.CLOSE, "OffsetCommit")
    ),
    Scenario("close.all", "all connections close", _connections_close),
    Scenario(
        "late.join",
        "the answer to a join is 2 s late",
        _two,
        _join(_A.DELAY_ANSWER, delay_ms=2_000),
    ),
    Scenario(
        "late.heartbeat",
        "a heartbeat is answered 2 s late",
        _two,
        _beat(_A.DELAY_ANSWER, delay_ms=2_000),
    ),
    Scenario(
        "late.commit",
        "offsets are committed 2 s late",
        _one,
        _of(_A.DELAY_COMMIT, "OffsetCommit", delay_ms=2_000),
    ),
    Scenario(
        "error.find",
        "no coordinator is available at first",
        _one,
        _of(_A.ERROR, "FindCoordinator", error="COORDINATOR_NOT_AVAILABLE", times=2),
    ),
    Scenario(
        "error.loading",
        "the coordinator is loading at first",
        _one,
        _join(_A.ERROR, error="COORDINATOR_LOAD_IN_PROGRESS", times=2),
    ),
    Scenario(
        "error.moved",
        "a heartbeat is answered NOT_COORDINATOR",
        _two,
        _beat(_A.ERROR, error="NOT_COORDINATOR"),
    ),
    Scenario(
        "error.unknown",
        "a heartbeat is answered UNKNOWN_MEMBER_ID",
        _two,
        _beat(_A.ERROR, error="UNKNOWN_MEMBER_ID"),
    ),
    Scenario(
        "error.fenced",
        "a heartbeat is fenced",
        _two,
        (
            _rule(_A.ERROR, "Heartbeat", 2, error="ILLEGAL_GENERATION"),
            _rule(_A.ERROR, "ConsumerGroupHeartbeat", 4, error="FENCED_MEMBER_EPOCH"),
        ),
    ),
    Scenario(
        "error.commit",
        "a commit is refused for a moment",
        _one,
        _of(_A.ERROR, "OffsetCommit", error="COORDINATOR_LOAD_IN_PROGRESS", times=2),
    ),
    Scenario(
        "error.fetch",
        "offsets are not stable for a moment",
        _one,
        _of(_A.ERROR, "OffsetFetch", error="UNSTABLE_OFFSET_COMMIT", times=2),
    ),
    Scenario("move.once", "the coordinator moves", _move),
    Scenario("move.slow", "the coordinator moves, and loads for 3 s", _move_slowly),
    Scenario("move.often", "the coordinator moves three times", _move_often),
    Scenario("move.join", "the coordinator moves as a member joins", _move_as_one_joins),
    Scenario(
        "move.losses", "the coordinator moves, and loses the end of its log", _move_with_losses
    ),
    Scenario("topic.grows", "the topic gets more partitions", _more_partitions),
    Scenario("topic.later", "the topic is made after the start", _topic_later),
    Scenario("topic.again", "the topic is deleted and made again", _topic_again),
)
