"""The one error of this layer."""

import importlib.util


class BadInput(Exception):
    """What the user gave will not do. The message is one line: the place, and the remedy."""


def need_libraries(command: str, *libraries: str, extra: str) -> None:
    """Raises BadInput where one of these libraries, which an extra installs, is missing."""
    for library in libraries:
        if importlib.util.find_spec(library) is None:
            raise BadInput(
                f"{command} needs the library {library}: pip install 'rebalance-sim[{extra}]'"
            )
