"""Random histories of one coordinator: what members may send, in any order, and worse."""

from __future__ import annotations

from dataclasses import replace

from coordinator_world import GROUP, CoordinatorWorld
from hypothesis import strategies as st

from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitRequest
from rebalance_sim.protocol.wire.topics import MetadataImage, Topic

MEMBERS = ("m0", "m1", "m2", "m3", "m4")
INSTANCES = {"m0": "i0", "m1": "i0", "m2": "i1"}
"""Two clients share an instance id, one has its own, the others have none."""

SUBSCRIPTIONS = (("orders",), ("orders", "payments"), ("payments",), ("missing",))
RANDOM_CONFIG = CoordinatorConfig(
    group_consumer_assignment_interval_ms=1_000, group_consumer_max_size=4
)

ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(
            (
                "join",
                "join",
                "beat",
                "beat",
                "beat",
                "ack",
                "ack",
                "full",
                "old",
                "leave",
                "leave_for_a_while",
                "wait",
                "commit",
                "topics",
                "restart",
            )
        ),
        st.sampled_from(MEMBERS),
        st.integers(0, 7),
    ),
    max_size=40,
)


def play(world: CoordinatorWorld, action: tuple[str, str, int]) -> None:
    """Do one thing to the coordinator."""
    verb, name, number = action
    group = world.shard.coordinator.groups_of(ConsumerGroup).get(GROUP)
    member = group.members.get(name) if group else None
    epoch = member.member_epoch if member else number
    instance = INSTANCES.get(name)
    assigned = frozenset(member.assigned) if member else frozenset()
    held = assigned | frozenset(member.pending_revocation) if member else frozenset()
    match verb:
        case "join":
            world.join(name, *SUBSCRIPTIONS[number % 4], instance_id=instance)
        case "beat":
            owned = (None, held)[number % 2]
            world.heartbeat(name, epoch, owned=owned, instance_id=instance)
        case "ack":
            world.heartbeat(name, epoch, owned=assigned, instance_id=instance)
        case "full":
            world.heartbeat(
                name,
                epoch,
                owned=(assigned, held)[number % 2],
                instance_id=instance,
                rebalance_timeout_ms=20_000,
                subscribed_topic_names=SUBSCRIPTIONS[number % 4],
            )
        case "old":
            previous = member.previous_member_epoch if member else 0
            world.heartbeat(
                name,
                (previous, epoch - 1, epoch + 1)[number % 3],
                owned=(None, assigned, held)[number // 3],
                instance_id=instance,
            )
        case "leave":
            world.heartbeat(name, -1, instance_id=instance)
        case "leave_for_a_while":
            world.heartbeat(name, -2, instance_id=instance)
        case "wait":
            world.advance_to(world.now_ms + (1, 500, 3_000, 21_000)[number % 4])
        case "commit":
            world.request(
                OffsetCommitRequest(
                    group_id=GROUP,
                    member_id=name,
                    generation_id_or_member_epoch=epoch - number % 3,
                    offsets=dict.fromkeys(sorted(assigned), number),
                )
            )
        case "topics":
            world.update_image(_other_topics(world, number))
        case "restart":
            world.restart()
    world.advance_to(world.now_ms)


def _other_topics(world: CoordinatorWorld, number: int) -> MetadataImage:
    """``orders`` deleted, created anew under another id, or grown."""
    orders = world.image.by_name.get("orders")
    if orders is None or number % 4 == 0:
        anew = Topic(topic_id=f"id-{world.image.version}", name="orders", partition_count=3)
        return world.image.with_topic(anew)
    if number % 4 == 1:
        return world.image.without_topic("orders")
    grown = replace(orders, partition_count=min(orders.partition_count + 1, 9))
    return world.image.with_topic(grown)
