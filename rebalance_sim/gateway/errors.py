"""The error of the wire; what is wrong with files and settings is a ``ScenarioError``."""


class WireError(Exception):
    """Bytes that are no request. The connection that they came on is closed, as by Kafka."""
