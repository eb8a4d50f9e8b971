"""A consumer of librdkafka (confluent-kafka) that commits what it reads, until SIGTERM.

python librdkafka.py BOOTSTRAP GROUP TOPIC [classic|consumer] [INSTANCE_ID]
"""

import os
import signal
import sys

from confluent_kafka import Consumer, KafkaError, KafkaException
from reporter import Reporter

bootstrap, group, topic, *rest = sys.argv[1:]
protocol = rest[0] if rest else "classic"
settings = {
    "bootstrap.servers": bootstrap,
    "client.id": f"librdkafka-{os.getpid()}",
    "group.id": group,
    "group.protocol": protocol,
    "auto.offset.reset": "earliest",
    "auto.commit.interval.ms": 200,
    "topic.metadata.refresh.interval.ms": 1000,
}
if protocol == "classic":
    settings |= {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500}
if len(rest) > 1:
    settings["group.instance.id"] = rest[1]
running = True


def stop(*_):
    global running
    running = False


signal.signal(signal.SIGTERM, stop)
consumer = Consumer(settings)
reporter = Reporter(group, settings["client.id"], "librdkafka", protocol)
consumer.subscribe(
    [topic],
    on_assign=lambda _, partitions: reporter.callback("assigned", partitions),
    on_revoke=lambda _, partitions: reporter.callback("revoked", partitions),
    on_lost=lambda _, partitions: reporter.callback("lost", partitions),
)
while running:
    message = consumer.poll(0.1)
    if message is not None and message.error():
        if message.error().code() == KafkaError._FATAL:
            raise KafkaException(message.error())
    elif message is not None:
        offset = message.offset()
        reporter.polled([message.topic(), message.partition(), offset, offset + 1])
    else:
        reporter.polled()
consumer.close()
reporter.tell("stopped")
