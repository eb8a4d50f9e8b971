"""Laws: what somebody who uses Kafka relies on, each in one sentence."""
