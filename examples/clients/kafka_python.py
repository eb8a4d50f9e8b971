"""A consumer of kafka-python that commits what it reads, until SIGTERM.

python kafka_python.py BOOTSTRAP GROUP TOPIC [INSTANCE_ID]
"""

import signal
import sys

from kafka import KafkaConsumer

bootstrap, group, topic, *rest = sys.argv[1:]
running = True


def stop(*_):
    global running
    running = False


signal.signal(signal.SIGTERM, stop)
consumer = KafkaConsumer(
    topic,
    bootstrap_servers=bootstrap,
    group_id=group,
    group_instance_id=rest[0] if rest else None,
    auto_offset_reset="earliest",
    auto_commit_interval_ms=200,
    session_timeout_ms=6000,
    heartbeat_interval_ms=500,
    metadata_max_age_ms=1000,
)
while running:
    consumer.poll(100)
consumer.close()
