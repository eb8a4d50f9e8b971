"""Kafka's wire protocol: frames, messages, record batches, and the bytes that members exchange."""
