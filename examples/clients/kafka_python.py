"""A consumer of kafka-python that commits what it reads, until SIGTERM.

python kafka_python.py BOOTSTRAP GROUP TOPIC [INSTANCE_ID]
"""

import os
import signal
import sys

from kafka import ConsumerRebalanceListener, KafkaConsumer
from reporter import Reporter

bootstrap, group, topic, *rest = sys.argv[1:]
running = True


def stop(*_):
    global running
    running = False


signal.signal(signal.SIGTERM, stop)
client_id = f"kafka-python-{os.getpid()}"
reporter = Reporter(group, client_id, "kafka-python")


class Listener(ConsumerRebalanceListener):
    def on_partitions_assigned(self, assigned):
        reporter.callback("assigned", assigned)

    def on_partitions_revoked(self, revoked):
        reporter.callback("revoked", revoked)


consumer = KafkaConsumer(
    client_id=client_id,
    bootstrap_servers=bootstrap,
    group_id=group,
    group_instance_id=rest[0] if rest else None,
    auto_offset_reset="earliest",
    auto_commit_interval_ms=200,
    session_timeout_ms=6000,
    heartbeat_interval_ms=500,
    metadata_max_age_ms=1000,
)
consumer.subscribe([topic], listener=Listener())
while running:
    polled = consumer.poll(100)
    reporter.polled(
        *(
            [one.topic, one.partition, rows[0].offset, rows[-1].offset + 1]
            for one, rows in polled.items()
        )
    )
consumer.close()
reporter.tell("stopped")
