"""What librdkafka 2.16 does with either protocol; ``consumer`` and ``classic`` add the rest.

``librdkafka_machine`` is the machine: start reading there. Source: client §10.1.
"""
