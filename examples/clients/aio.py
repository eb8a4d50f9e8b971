"""A consumer of aiokafka that commits what it reads, until SIGTERM.

python aio.py BOOTSTRAP GROUP TOPIC [INSTANCE_ID]
"""

import asyncio
import os
import signal
import sys
from contextlib import suppress

from aiokafka import AIOKafkaConsumer
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.errors import KafkaConnectionError
from reporter import Reporter


class Listener(ConsumerRebalanceListener):
    def __init__(self, reporter):
        self.reporter = reporter

    def on_partitions_assigned(self, assigned):
        self.reporter.callback("assigned", assigned)

    def on_partitions_revoked(self, revoked):
        self.reporter.callback("revoked", revoked)


async def consume(bootstrap, group, topic, instance_id=None):
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    client_id = f"aiokafka-{os.getpid()}"
    reporter = Reporter(group, client_id, "aiokafka")
    consumer = AIOKafkaConsumer(
        client_id=client_id,
        bootstrap_servers=bootstrap,
        group_id=group,
        group_instance_id=instance_id,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=200,
        session_timeout_ms=6000,
        heartbeat_interval_ms=500,
        metadata_max_age_ms=1000,
    )
    consumer.subscribe([topic], listener=Listener(reporter))
    while not stopped.is_set():
        # Its start fails where the connection to the first broker is closed.
        with suppress(KafkaConnectionError):
            await consumer.start()
            break
    while not stopped.is_set():
        polled = await consumer.getmany(timeout_ms=100)
        reporter.polled(
            *(
                [one.topic, one.partition, rows[0].offset, rows[-1].offset + 1]
                for one, rows in polled.items()
            )
        )
    await consumer.stop()
    reporter.tell("stopped")


asyncio.run(consume(*sys.argv[1:]))
