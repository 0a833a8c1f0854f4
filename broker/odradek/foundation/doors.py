"""The door of a room: a module `late` in its folder, which names what the room loads at the first use, and not before.

docs/architecture.md says what a start leaves out, and why. A type checker reads the imports of such a module; a running
process reads the table beside them. A test holds the two to each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def open_late(room: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of the module `room`. `homes` has the module of each name. Raises AttributeError for another
    name, and what the import of its module raises.
    """

    def find(name: str) -> object:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        return getattr(import_module(home), name)

    return find
