"""Topics of a gateway: ids are never given twice, and few of those that are gone are remembered."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from rebalance_sim.gateway import topics as module
from rebalance_sim.gateway.topics import MAX_DELETED_TOPICS, Topics


def made_again(topics: Topics, name: str) -> str:
    """Make a topic and delete it; its id in the core."""
    made = topics.set(name, 1).topic.topic_id
    topics.delete(name)
    return made


def test_a_deleted_topic_is_known_by_its_id_until_so_many_were_deleted_after_it():
    topics = Topics()
    held = topics.set("orders", 1)
    topics.delete("orders")
    for number in range(MAX_DELETED_TOPICS - 1):
        made_again(topics, f"t{number}")
    assert topics.topic_id(held.uuid) == "orders#1"
    made_again(topics, "one-more")
    assert topics.topic_id(held.uuid) == str(held.uuid)


@given(st.lists(st.sampled_from("abcdef"), max_size=60))
def test_no_id_is_given_twice_also_when_its_topic_is_forgotten(names):
    limit, module.MAX_DELETED_TOPICS = module.MAX_DELETED_TOPICS, 3
    try:
        topics = Topics()
        topics.set("a", 1)  # One that is there while others come and go.
        ids = [made_again(topics, name) for name in names if name != "a"]
        assert len(ids) == len(set(ids))
        assert topics.topic_id(topics.by_name["a"].uuid) == "a#1"
    finally:
        module.MAX_DELETED_TOPICS = limit


def test_memory_is_flat_while_topics_come_and_go():
    topics = Topics()

    def grown(names: range) -> int:
        before = tracemalloc.get_traced_memory()[0]
        for number in names:
            made_again(topics, f"topic-{number}")
            made_again(topics, "the-same")
        return tracemalloc.get_traced_memory()[0] - before

    tracemalloc.start()
    try:
        grown(range(MAX_DELETED_TOPICS))
        # Two topics of each number: one that is kept would cost hundreds of bytes. Less than that
        # is memory of other threads, which tracemalloc counts too.
        numbers = range(MAX_DELETED_TOPICS, 11 * MAX_DELETED_TOPICS)
        assert grown(numbers) < 10 * len(numbers)
    finally:
        tracemalloc.stop()
