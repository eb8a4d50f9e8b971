"""kafka-clients 4.3.1, the asynchronous consumer (``group.protocol=consumer``)."""
