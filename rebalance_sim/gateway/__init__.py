"""A gateway for real Kafka clients: the protocol core behind sockets, with faults on command.

It needs the extra ``gateway``: ``kio``, which has the schemas of the wire protocol, and ``h11``.
"""
