"""One value for each event loop of the process, such as a lock or a line of those that wait.

Such a value refers to its loop: a lock does from the first wait for it on. So a dictionary with weak keys would keep
the loop, and all that its callbacks refer to, for the rest of the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class PerLoop(Generic[T]):
    """`make` makes a loop's value when the loop first asks. Loops of several threads may ask at once.

    The values of closed loops are dropped when another loop first asks. Until then they are kept.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._values: dict[asyncio.AbstractEventLoop, T] = {}

    def get(self) -> T:
        """The value of the running loop."""
        loop = asyncio.get_running_loop()
        value = self._values.get(loop)
        if value is None:
            for other in [*self._values]:
                if other.is_closed():
                    self._values.pop(other, None)
            value = self._values.setdefault(loop, self._make())
        return value

    def forget(self) -> None:
        """Drop the value of the running loop; the next `get` makes another one."""
        self._values.pop(asyncio.get_running_loop(), None)
