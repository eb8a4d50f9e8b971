"""The one error of this layer."""


class BadInput(Exception):
    """What the user gave will not do. The message is one line: the place, and the remedy."""
