"""librdkafka 2.16.0 with ``group.protocol=consumer``. Versions and defects of the Java client do
not concern it."""
