"""A gateway for real Kafka clients: the protocol core behind sockets, with faults on command.

It needs the library ``kio`` (the extra ``gateway``), which has the schemas of the wire protocol.
"""
