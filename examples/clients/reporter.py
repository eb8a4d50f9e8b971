"""Tells a gateway what an application sees, in lines of JSON, if REBALANCE_SIM_REPORT says where.

Callbacks are told before they return, records before the next poll.
"""

import json
import os
import socket


class Reporter:
    def __init__(self, group, client_id, library, protocol="classic"):
        self.about = {"group": group, "client_id": client_id, "library": library}
        self.about["protocol"] = protocol
        address = os.environ.get("REBALANCE_SIM_REPORT")
        self.connection = None
        if address:
            host, port = address.rsplit(":", 1)
            self.connection = socket.create_connection((host, int(port)))
            self.answers = self.connection.makefile()
            self.tell("started", auto_offset_reset="earliest")

    def tell(self, event, **more):
        if self.connection is None:
            return
        row = {**self.about, "event": event, **more}
        self.connection.sendall(json.dumps(row).encode() + b"\n")
        answer = self.answers.readline().strip()
        if answer != "ok":
            print("reporter:", answer)

    def callback(self, event, partitions):
        by_topic = {}
        for one in partitions:
            by_topic.setdefault(one.topic, []).append(one.partition)
        self.tell(event, partitions=by_topic)

    def polled(self, *records):
        """Rows of topic, partition, first offset, next offset."""
        self.tell("polled", records=records)
