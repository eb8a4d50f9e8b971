"""Defects of brokers, and of what hosts them, that change only a value of their rules."""

from rebalance_sim.protocol.defects.defect import Defect, always, wrong
from rebalance_sim.protocol.hosting.broker_rules import BrokerRules

DEFECTS = (
    # A failed write leaves a member without a timer, or with one too many.
    # Timers are armed and disarmed while a request is handled, and stay so when its records
    # cannot be written and memory goes back (coordinator D14; docs/findings.md).
    Defect(
        id="D14",
        title="A failed write leaves a member without a timer",
        source="docs/findings.md",
        versions="4.1.2, 4.3.1",
        rules=(wrong(BrokerRules, keeps_timers_of_failed_batches=True),),
        properties=("defects L3",),
    ),
    # Unloading is a task of its own, which looks at no epoch.
    Defect(
        id="KAFKA-10614",
        title="Load and unload of different leader epochs in the wrong order",
        source="apache/kafka#9441",
        versions="2.x; fixed in 3.0.0 and the 2.8 line",
        rules=(wrong(BrokerRules, unload_delay_ms=1_000),),
        properties=("defects L6", "defects S5"),
    ),
    # The resignation does not carry a newer epoch, and is ignored.
    Defect(
        id="KAFKA-19274",
        title="Unload ignored, zombie coordinator keeps serving",
        versions="4.0; fixed in 4.0.x/4.1",
        rules=(wrong(BrokerRules, gives_up=always(False)),),
        properties=("defects S5",),
    ),
    # A load insists that a partition is released before it is given away.
    Defect(
        id="KAFKA-19862",
        title="Load fails while compaction runs",
        source="apache/kafka#20907",
        versions="4.0 - 4.1; fixed on the 4.0 and 4.1 lines and in 4.2",
        rules=(wrong(BrokerRules, loads_strictly=True),),
        properties=("defects L6",),
    ),
    Defect(
        id="mut-aborted-shown",
        title="A fetch with read_committed does not say which transactions were aborted",
        rules=(wrong(BrokerRules, names_aborted_transactions=False),),
    ),
    Defect(
        id="mut-batch-twice",
        title="A batch that a producer sends again is written again",
        rules=(wrong(BrokerRules, checks_sequences=False),),
    ),
    Defect(
        id="mut-fetch-beyond-stable",
        title="A fetch with read_committed goes beyond the last stable offset",
        rules=(wrong(BrokerRules, fetches_to_stable_offset=False),),
    ),
    # What could not be written stays in force in memory.
    Defect(
        id="mut-keeps-failed-batch",
        title="What could not be written stays in memory",
        rules=(wrong(BrokerRules, reverts_failed_batches=False),),
        properties=("defects S5",),
    ),
    Defect(
        id="mut-reads-uncommitted",
        title="Describe and list show what is not committed yet",
        rules=(wrong(BrokerRules, reads_newest=True),),
        properties=("defects S5",),
    ),
    Defect(
        id="mut-reply-before-commit",
        title="Response sent before the records are committed",
        rules=(wrong(BrokerRules, offset_to_await=always(0)),),
        properties=("defects S5", "defects S3"),
    ),
    # Found by this simulator, in the code of Kafka 4.3.1.
    # A heartbeat that its client has given up is handled after the one that was sent instead.
    # What it is granted is in its answer alone, and that reaches no one (docs/findings.md).
    Defect(
        id="sim-overtaken-heartbeat",
        title="A heartbeat that was given up takes away what it is granted",
        source="docs/findings.md",
        versions="4.1.2, 4.3.1",
        rules=(wrong(BrokerRules, handles_overtaken_heartbeats=True),),
        properties=("defects L2",),
    ),
)
