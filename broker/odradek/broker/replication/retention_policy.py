"""A retention rule of the operator's own, named by import path (log.retention.policy; document 004, "Deletes").

    def keep_a_gigabyte(log: LogView) -> int: ...    how many of `log.segments`, the oldest first, may be deleted

It takes the place of retention by time and by size, for topics whose cleanup.policy has delete. It sees only segments
that may be deleted, and can do no more than choose among them. It runs in a thread of its own, one log at a time. What
it raises or gives wrongly deletes nothing of that log. A call that takes too long is left alone, and nothing is deleted
by the policy until it has ended.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable
from typing import cast

from odradek.foundation.errors import SettingError
from odradek.foundation.limits import RETENTION_POLICY_SECONDS_MAX
from odradek.storage.retention import LogView

logger = logging.getLogger(__name__)

Policy = Callable[[LogView], int]


def load_policy(path: str | None) -> Policy | None:
    """The function that `MODULE:FUNCTION` names. Raises SettingError."""
    if not path:
        return None
    from pkgutil import resolve_name

    try:
        found: object = resolve_name(path)
        if not callable(found):
            raise TypeError("it is no function")
        inspect.signature(found).bind(None)
    except Exception as failure:
        raise SettingError(
            f"log.retention.policy is {path!r}, which cannot be used: {failure}; name a function of one argument as "
            "MODULE:FUNCTION, of a module on the broker's PYTHONPATH"
        ) from failure
    return cast(Policy, found)


class RetentionPolicy:
    """Calls a policy with a limit of time."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._under_way: asyncio.Future[int | None] | None = None

    async def choose(self, log: LogView) -> int:
        """The offset up to which the policy lets the log be deleted; the log's start if it fails, or takes too long."""
        nothing = log.segments[0].start_offset
        if self._under_way is not None and not self._under_way.done():
            return nothing
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[int | None] = loop.create_future()
        self._under_way = answer

        def settle(count: int | None) -> None:
            if not answer.done():
                answer.set_result(count)

        def call() -> None:
            count = self._call(log)
            try:
                loop.call_soon_threadsafe(settle, count)
            except RuntimeError:
                return  # the broker has ended

        # A daemon, so that a policy that hangs does not keep the broker from ending.
        threading.Thread(target=call, name="retention policy", daemon=True).start()
        done, _ = await asyncio.wait((answer,), timeout=RETENTION_POLICY_SECONDS_MAX)
        if not done:
            logger.error(
                "log.retention.policy has not answered for %s-%d within %g s; it deletes nothing until it has",
                log.topic,
                log.partition,
                RETENTION_POLICY_SECONDS_MAX,
            )
            return nothing
        count = answer.result()
        return log.segments[count - 1].end_offset if count else nothing

    def _call(self, log: LogView) -> int | None:
        """The number of segments; None for a failure."""
        try:
            count = self._policy(log)
        except BaseException:  # one that ends its thread, as sys.exit, would look like one that never answers
            logger.exception(
                "log.retention.policy failed for %s-%d: nothing is deleted", log.topic, log.partition
            )
            return None
        if type(count) is not int or not 0 <= count <= len(log.segments):
            logger.error(
                "log.retention.policy returned %.100r for %s-%d, which has %d segments to choose from: nothing is "
                "deleted",
                count,
                log.topic,
                log.partition,
                len(log.segments),
            )
            return None
        return count
