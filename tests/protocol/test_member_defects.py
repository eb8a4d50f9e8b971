"""Every client defect and mutant changes the behaviour it is named for; none is on by default.

Each story is told twice: with the rules of kafka-clients 4.3.1 and with the defect in front.
"""

from __future__ import annotations

from typing import Any

import pytest
from computing_driver import REPORTED, member_at_rest
from member_commit_stories import COMMIT_STORIES, Telling
from member_driver import ALL_TOPICS, INTERVAL_MS, Story, partitions, retarget, sent, stable

from rebalance_sim.protocol.clients.common.consumer_config import ConsumerConfig
from rebalance_sim.protocol.clients.common.effects import (
    AssignmentReceived,
    CallReturned,
    SendInstallAssignment,
)
from rebalance_sim.protocol.clients.common.events import (
    Close,
    MetadataKnown,
    Subscribe,
    Tick,
    Unsubscribe,
)
from rebalance_sim.protocol.clients.common.values import CallbackKind
from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.clients.kinds import JAVA, KINDS
from rebalance_sim.protocol.clients.versions import client_rules
from rebalance_sim.protocol.defects import DEFECTS
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import TopicPartition

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def fenced(story: Story) -> None:
    """The next heartbeat is answered with a fence."""
    story.wait(INTERVAL_MS)
    story.refuse(ErrorCode.FENCED_MEMBER_EPOCH)


def leave_epoch_of_static_member(rules: type[MemberRules]) -> int:
    story = stable(rules, 0, group_instance_id="i1", enable_auto_commit=False)
    story.handle(Close())
    story.finish_callback()
    return story.last.member_epoch


def first_member_id(rules: type[MemberRules]) -> tuple[str, int]:
    story = Story(rules=rules)
    story.join()
    return story.last.member_id, story.last.api_version


def joins_sent_within_one_millisecond(rules: type[MemberRules]) -> int:
    story = Story(rules=rules)
    story.join()
    count = len(story.heartbeats)
    story.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    story.wait(0)
    return len(story.heartbeats) - count


def heartbeats_after_an_error(rules: type[MemberRules]) -> int:
    story = stable(rules, 0)
    story.wait(INTERVAL_MS)
    story.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    count = len(story.heartbeats)
    story.wait(10 * INTERVAL_MS)
    return len(story.heartbeats) - count


def owned_after_late_names(rules: type[MemberRules]) -> frozenset[TopicPartition]:
    story = Story(rules=rules, metadata={"orders": "orders"}, enable_auto_commit=False)
    story.subscribe("orders", "payments")
    story.find_coordinator()
    story.poll()
    story.answer(partitions(0) | partitions(0, topic="payments"))
    story.poll()
    story.finish_callback()
    story.handle(MetadataKnown(topic_names=ALL_TOPICS))
    for _ in range(3):
        story.answer()
        story.poll()
        while story.member.running_callback is not None:
            story.finish_callback()
        if story.member.answered_by_handler_in_flight == 0:
            break
    return frozenset(story.member.assigned)


def final_target_after_a_detour(rules: type[MemberRules]) -> frozenset[TopicPartition]:
    """{0} is owned; {0, 1} is being taken over when {0} comes back."""
    story = stable(rules, 0, enable_auto_commit=False)
    retarget(story, 0, 1)
    story.poll()
    retarget(story, 0)
    return story.member.target.partitions


def last_epoch_of_a_leave_crossed_by_an_answer(rules: type[MemberRules]) -> int:
    story = stable(rules)
    story.wait(INTERVAL_MS)
    older = story.heartbeats[-1]
    story.handle(Unsubscribe())
    story.answer(epoch=4, to=older)
    return story.last.member_epoch


def epoch_after_a_late_answer_to_the_leave(rules: type[MemberRules]) -> int:
    story = stable(rules)
    story.wait(INTERVAL_MS)
    older = story.heartbeats[-1]
    story.handle(Unsubscribe())
    leave = story.heartbeats[-1]
    story.disconnect(older)
    story.subscribe()
    story.poll()
    story.answer(epoch=-1, to=leave)
    return story.member.member_epoch


def owned_in_a_full_request_inside_the_assigned_callback(
    rules: type[MemberRules],
) -> frozenset[TopicPartition] | None:
    story = stable(rules, 0, enable_auto_commit=False)
    retarget(story, 0, 1)
    story.poll()
    story.wait(INTERVAL_MS)
    story.disconnect(story.heartbeats[-1])
    story.find_coordinator()
    story.wait(1_000)
    return story.last.topic_partitions


def state_after_a_failed_callback_and_the_target_of_before(rules: type[MemberRules]) -> str:
    story = stable(rules, 0)
    retarget(story, 0, 1)
    story.poll()
    story.answer_commit()
    story.poll()
    story.finish_callback(failed=True)
    retarget(story, 0)
    return story.state.name


def epoch_of_a_join_that_an_older_answer_overtakes(rules: type[MemberRules]) -> int:
    story = Story(rules=rules, max_poll_interval_ms=INTERVAL_MS + 1_000)
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    older = story.heartbeats[-1]
    story.wait(2_000)
    story.handle(Tick())
    story.poll()
    story.finish_callback()
    story.answer(epoch=3, to=older)
    return story.member.member_epoch


def assigned_after_poll_expiry(rules: type[MemberRules]) -> frozenset[TopicPartition]:
    story = stable(rules, 0, max_poll_interval_ms=4_000)
    story.wait(INTERVAL_MS)
    story.poll()
    if story.member.running_callback is not None:
        story.finish_callback()
    return frozenset(story.member.assigned)


def handed_out_during_the_commit(rules: type[MemberRules]) -> frozenset[TopicPartition]:
    story = stable(rules, 0, 1)
    retarget(story, 0)
    story.poll()
    return story.member.deliverable


def fetched_during_the_commit(rules: type[MemberRules]) -> frozenset[TopicPartition]:
    story = stable(rules, 0, 1)
    retarget(story, 0)
    story.poll()
    return story.member.fetchable


def searches_after_a_lost_heartbeat(rules: type[MemberRules]) -> list[str]:
    story = stable(rules, 0)
    story.wait(INTERVAL_MS)
    return sent(story.disconnect(story.heartbeats[-1]))


def reported_before_the_commit_is_answered(rules: type[MemberRules]) -> Any:
    story = stable(rules, 0, 1)
    retarget(story, 0)
    story.poll()
    return story.last.topic_partitions


def mute_after_a_failed_assigned_callback(rules: type[MemberRules]) -> bool:
    story = stable(rules, 0, enable_auto_commit=False)
    retarget(story, 0, 1)
    story.poll()
    story.finish_callback(failed=True)
    story.poll()
    story.finish_callback()
    return story.member.assigned[P1].awaiting_assigned_callback


def jitter_share(rules: type[MemberRules]) -> float:
    return rules().heartbeat_jitter_share(ConsumerConfig(group_id="g"))


def epoch_of_a_join_after_poll_expiry(rules: type[MemberRules]) -> int:
    story = stable(rules, 0, max_poll_interval_ms=4_000)
    story.wait(INTERVAL_MS)
    story.poll()
    story.finish_callback()
    return story.last.member_epoch


def epoch_of_a_stale_member_after_a_late_answer(rules: type[MemberRules]) -> int:
    story = stable(rules, 0, max_poll_interval_ms=INTERVAL_MS + 1_000)
    story.wait(INTERVAL_MS)
    older = story.heartbeats[-1]
    story.wait(2_000)
    story.handle(Tick())
    story.answer(epoch=4, to=older)
    return story.member.member_epoch


def has_identity_when_fenced(rules: type[MemberRules]) -> bool:
    story = stable(rules, 0)
    fenced(story)
    return story.member.commit_identity is not None


def id_when_fenced(rules: type[MemberRules]) -> str:
    story = stable(rules, 0)
    fenced(story)
    return story.member.member_id


def state_when_fenced(rules: type[MemberRules]) -> str:
    story = stable(rules, 0)
    fenced(story)
    return story.state.value


def callback_of_a_fence(rules: type[MemberRules]) -> CallbackKind:
    story = stable(rules, 0)
    fenced(story)
    return story.callbacks(story.poll())[0][0]


def stable_with_the_old_set(rules: type[MemberRules]) -> bool:
    story = stable(rules, 0, enable_auto_commit=False)
    retarget(story, 0, 1)
    return story.state.value == "STABLE" and frozenset(story.member.assigned) == partitions(0)


def reconciliations_at_once(rules: type[MemberRules]) -> int:
    story = stable(rules, 0, 1, enable_auto_commit=False)
    retarget(story, 0)
    story.poll()
    retarget(story, 0, 1, 2)
    return story.member.reconciliation_count


def reported_while_reconciling(rules: type[MemberRules]) -> Any:
    story = stable(rules, 0)
    retarget(story, 0, 1)
    story.wait(INTERVAL_MS)
    return story.last.topic_partitions


def fetchable_inside_the_assigned_callback(rules: type[MemberRules]) -> bool:
    story = stable(rules, 0, enable_auto_commit=False)
    retarget(story, 0, 1)
    story.poll()
    return not story.member.assigned[P1].awaiting_assigned_callback


def revoked_callbacks(rules: type[MemberRules]) -> int:
    story = stable(rules, 0, 1, enable_auto_commit=False)
    retarget(story, 0)
    story.poll()
    while story.member.running_callback is not None:
        story.finish_callback()
    return sum(kind is CallbackKind.REVOKED for kind, _ in story.callbacks())


def owned_list_after_a_failure(rules: type[MemberRules]) -> Any:
    story = stable(rules, 0)
    story.wait(INTERVAL_MS)
    story.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    story.wait(100)
    return story.last.topic_partitions


def unsubscribe_returns_after_a_lost_leave(rules: type[MemberRules]) -> bool:
    story = stable(rules)
    story.handle(Unsubscribe())
    story.disconnect(story.heartbeats[-1])
    return any(isinstance(effect, CallReturned) for effect in story.effects)


def pattern_field_after_a_lost_withdrawal(rules: type[MemberRules]) -> list[str | None]:
    story = stable(rules)
    story.handle(Subscribe(topic_regex="ord.*"))
    story.poll()
    story.wait(INTERVAL_MS)
    story.answer()
    story.handle(Subscribe(topic_names=frozenset({"payments"})))
    story.poll()
    story.wait(INTERVAL_MS)
    withdrawal = story.last
    story.disconnect(story.heartbeats[-1])
    story.find_coordinator()
    story.wait(INTERVAL_MS)
    return [withdrawal.subscribed_topic_regex, story.last.subscribed_topic_regex]


def times_an_assignor_hears_of_one_epoch(rules: type[MemberRules]) -> int:
    story = member_at_rest(rules=rules)
    story.receive(epoch=2, pending=(1,), metadata=REPORTED)
    story.receive(epoch=2, assigned=(0, 1), metadata=REPORTED)
    return len(story.of(AssignmentReceived))


def results_handed_in_by_a_member_that_was_replaced(rules: type[MemberRules]) -> int:
    story = member_at_rest(rules=rules)
    story.receive(asks_to_compute=True)
    story.answer_prepare()
    story.compute()
    story.answer_install(ErrorCode.UNKNOWN_MEMBER_ID)
    story.receive()
    return len(story.of(SendInstallAssignment))


# name -> (story, outcome by the rules, outcome with the defect)
STORIES: dict[str, tuple[Telling, Any, Any]] = COMMIT_STORIES | {
    "D12": (
        owned_in_a_full_request_inside_the_assigned_callback,
        partitions(0, 1),
        partitions(0),
    ),
    "Dekaf-1348": (leave_epoch_of_static_member, -2, -1),
    "KAFKA-16185": (final_target_after_a_detour, partitions(0), partitions(0, 1)),
    "KAFKA-16198": (
        owned_after_late_names,
        partitions(0) | partitions(0, topic="payments"),
        partitions(0, topic="payments"),
    ),
    "KAFKA-16215": (heartbeats_after_an_error, 1, 0),
    "KAFKA-16258": (assigned_after_poll_expiry, frozenset(), partitions(0)),
    "KAFKA-16460": (fetched_during_the_commit, partitions(0), partitions(0, 1)),
    "KAFKA-16555": (joins_sent_within_one_millisecond, 1, 2),
    "KAFKA-17116": (first_member_id, ("m1", 1), ("", 0)),
    "KAFKA-17293": (searches_after_a_lost_heartbeat, ["FindCoordinator"], []),
    "KAFKA-18160": (mute_after_a_failed_assigned_callback, False, True),
    "KAFKA-19335": (epoch_after_a_late_answer_to_the_leave, 0, -1),
    "KAFKA-19813": (jitter_share, 0.2, 300_000.0),
    "KAFKA-20332": (handed_out_during_the_commit, partitions(0), partitions(0, 1)),
    "PR-15362": (last_epoch_of_a_leave_crossed_by_an_answer, -1, 4),
    "mut-ack-before-stop": (reported_before_the_commit_is_answered, None, partitions(0)),
    "mut-client-ack-before-apply": (stable_with_the_old_set, False, True),
    "mut-client-adopts-late-answers": (epoch_of_a_stale_member_after_a_late_answer, -1, 4),
    "mut-client-clears-id-on-fence": (id_when_fenced, "m1", ""),
    "mut-client-fetches-during-callback": (fetchable_inside_the_assigned_callback, False, True),
    "mut-client-hears-every-answer": (times_an_assignor_hears_of_one_epoch, 1, 2),
    "mut-client-installs-again": (results_handed_in_by_a_member_that_was_replaced, 1, 2),
    "mut-client-keeps-identity-on-fence": (has_identity_when_fenced, False, True),
    "mut-client-keeps-leave-epoch": (epoch_of_a_join_after_poll_expiry, 0, -1),
    "mut-client-keeps-sent-fields": (owned_list_after_a_failure, partitions(0), None),
    "mut-client-leave-needs-success": (unsubscribe_returns_after_a_lost_leave, True, False),
    "mut-client-rejoins-before-lost": (state_when_fenced, "FENCED", "JOINING"),
    "mut-client-reports-target": (reported_while_reconciling, None, partitions(0, 1)),
    "mut-client-revokes-on-fence": (callback_of_a_fence, CallbackKind.LOST, CallbackKind.REVOKED),
    "mut-client-revokes-twice": (revoked_callbacks, 1, 2),
    "mut-client-second-reconciliation": (reconciliations_at_once, 1, 2),
    "sim-failed-callback": (
        state_after_a_failed_callback_and_the_target_of_before,
        "RECONCILING",
        "STABLE",
    ),
    "sim-late-answer": (epoch_of_a_join_that_an_older_answer_overtakes, 0, 3),
    "sim-lost-pattern-withdrawal": (pattern_field_after_a_lost_withdrawal, ["", ""], ["", None]),
}


@pytest.mark.parametrize("name", STORIES)
def test_a_defect_changes_the_behaviour_it_is_named_for(name: str) -> None:
    telling, by_the_rules, with_the_defect = STORIES[name]
    assert telling(MemberRules) == by_the_rules
    # Where late answers are not taken, none of them brings the epoch of a leave.
    needed = ("sim-late-answer",) if name == "KAFKA-19335" else ()
    switched = SEMANTICS["kafka-4.3-clean"].with_defects(name, *needed)
    assert telling(switched.member) == with_the_defect


def test_every_defect_has_a_story() -> None:
    of_members = {d.id for d in DEFECTS.values() if MemberRules in d.rules[0].__bases__}
    assert set(STORIES) == of_members


def test_defects_can_be_combined_and_keep_their_behaviour() -> None:
    both = SEMANTICS["kafka-4.3"].with_defects("Dekaf-1348", "KAFKA-16215").member
    assert leave_epoch_of_static_member(both) == -1
    assert heartbeats_after_an_error(both) == 0


def test_a_client_of_4_4_acknowledges_a_target_without_names_once() -> None:
    """KAFKA-20145: 4.3.1 does so with every round trip."""
    later = client_rules(KINDS[JAVA], "4.4", SEMANTICS["kafka-4.3"])
    assert later is not None
    for rules, heartbeats in ((MemberRules, 3), (later, 1)):
        story = stable(rules, 0, enable_auto_commit=False)
        story.subscribe("orders", "payments")
        story.handle(MetadataKnown(topic_names={"orders": "orders"}))
        story.wait(INTERVAL_MS)
        count = len(story.heartbeats)
        story.answer(partitions(0) | partitions(0, topic="payments"))
        for _ in range(2):
            if story.member.heartbeats_in_flight:
                story.answer()
        assert len(story.heartbeats) - count == heartbeats
        assert not story.member.poll_is_due
        story.handle(MetadataKnown(topic_names=ALL_TOPICS))
        if story.member.heartbeats_in_flight:
            story.answer()
        assert story.callbacks(story.poll()) == [
            (CallbackKind.ASSIGNED, partitions(0, topic="payments"))
        ]


def test_what_is_lost_is_not_fetched_while_its_callback_is_still_to_end() -> None:
    """KAFKA-20321."""
    story = stable(MemberRules, 0)
    fenced(story)
    assert story.member.assigned.keys() == partitions(0)
    assert story.member.fetchable == frozenset()


def test_the_default_rules_override_nothing() -> None:
    assert SEMANTICS["kip-848-clean"].member is MemberRules


def test_the_shipped_member_has_the_defects_that_its_version_names_and_no_other() -> None:
    shipped = SEMANTICS["kafka-4.3"]
    of_members = [name for name in shipped.shipped_defects if name in STORIES]
    assert of_members == [
        "D12",
        "sim-closing-commit",
        "sim-failed-callback",
        "sim-late-answer",
        "sim-lost-pattern-withdrawal",
        "sim-retried-commit",
    ]
    assert pattern_field_after_a_lost_withdrawal(shipped.member) == ["", None]
