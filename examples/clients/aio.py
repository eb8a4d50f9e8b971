"""A consumer of aiokafka that commits what it reads, until SIGTERM.

python aio.py BOOTSTRAP GROUP TOPIC [INSTANCE_ID]
"""

import asyncio
import signal
import sys

from aiokafka import AIOKafkaConsumer


async def consume(bootstrap, group, topic, instance_id=None):
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        group_instance_id=instance_id,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=200,
        session_timeout_ms=6000,
        heartbeat_interval_ms=500,
        metadata_max_age_ms=1000,
    )
    await consumer.start()
    while not stopped.is_set():
        await consumer.getmany(timeout_ms=100)
    await consumer.stop()


asyncio.run(consume(*sys.argv[1:]))
