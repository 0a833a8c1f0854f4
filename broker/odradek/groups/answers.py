"""An answer that may be there at once: then nobody has to wait for it, and no task is made."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Generic, TypeVar, cast

T = TypeVar("T")

_NOTHING = object()


class Answer(Generic[T]):
    """Called once with the result, by whoever finds it; `get` gives it to who asked."""

    __slots__ = ("_future", "_result")

    def __init__(self) -> None:
        self._result: object = _NOTHING
        self._future: asyncio.Future[T] | None = None

    def __call__(self, result: T) -> None:
        self._result = result
        if self._future is not None and not self._future.done():
            self._future.set_result(result)

    def get(self) -> T | Awaitable[T]:
        """The result if it is there, else something to await."""
        if self._result is not _NOTHING:
            return cast(T, self._result)
        self._future = asyncio.get_running_loop().create_future()
        return self._future
