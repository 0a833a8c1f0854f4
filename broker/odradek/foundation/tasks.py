"""Background tasks with an owner: each has a name, a failure is logged and reported, and closing ends them all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import TypeVar

T = TypeVar("T")

logger = logging.getLogger(__name__)


class TaskOwner:
    """Holds the tasks that one component started, until they end or it closes."""

    def __init__(self, name: str, *, on_failure: Callable[[str, BaseException], None] | None = None) -> None:
        self._name = name
        self._on_failure = on_failure
        # In the order of their start, in which closing cancels them: a simulated run must not depend on addresses.
        self._tasks: dict[asyncio.Task[object], None] = {}
        self._closed = False

    def start(self, coroutine: Coroutine[object, None, T], *, name: str) -> asyncio.Task[T]:
        """Run `coroutine` as a task named `<owner>/<name>`.

        Raises RuntimeError when the owner is closed: no one would end a task that starts then.
        """
        if self._closed:
            coroutine.close()
            raise RuntimeError(f"{self._name} is closed and cannot start the task {name!r}")
        task = asyncio.get_running_loop().create_task(coroutine, name=f"{self._name}/{name}")
        self._tasks[task] = None
        task.add_done_callback(self._finish_task)
        return task

    def _finish_task(self, task: asyncio.Task[object]) -> None:
        self._tasks.pop(task, None)
        if task.cancelled():
            return
        failure = task.exception()
        if failure is None:
            return
        logger.error("task %s failed", task.get_name(), exc_info=failure)
        if self._on_failure is not None:
            self._on_failure(task.get_name(), failure)

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def is_closed(self) -> bool:
        """Whether it ends its tasks, or has."""
        return self._closed

    def running(self) -> list[asyncio.Task[object]]:
        """The tasks that have not ended."""
        return list(self._tasks)

    async def close(self) -> None:
        """Cancel the running tasks and wait until all have ended. Failures were logged as they happened."""
        self._closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)
