"""Why kgo joins, or leaves, as its requests say (franz §7)."""

FIRST = "beginning to manage the group lifecycle"
NORMAL = "rejoining from normal rebalance"
REVOKED = "after revoking what we lost from a rebalance"
ERRED = "rejoining after we previously errored and backed off"
MORE_TOPICS = "rejoining because there are more topics to consume, our interests have changed"
GROWN = "rejoining because we are the leader and noticed some topics have new partitions"
OTHERS_GROWN = (
    "leader detected that partitions on topics another member is consuming have changed, "
    "rejoining to trigger rebalance"
)
OLD_PLAN = (
    "instance group leader restarted and was reassigned old plan, our topic interests changed and "
    "we must rejoin to force a rebalance"
)
COMMIT = "offset commit error"
LEAVE = "client leaving group per normal operation"
