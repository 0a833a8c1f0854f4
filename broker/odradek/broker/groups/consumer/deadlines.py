"""By when the members of one consumer group must send a heartbeat, and by when they must take their next step.

A heartbeat moves one number. `wake_at` is never later than the earliest deadline, and `expire` is called then.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from odradek.broker.coordination.timers import TimerHost


class MemberDeadlines:
    """Loop times by member id. `on_due` removes the members whose time is up (`take_due`)."""

    def __init__(self, host: TimerHost, on_due: Callable[[], None]) -> None:
        self._host = host
        self._on_due = on_due
        self._sessions: dict[str, float] = {}
        # By when a member must have revoked, or (with the classic protocol) joined or synced; and its epoch now.
        self._steps: dict[str, tuple[float, int]] = {}
        self.wake_at = math.inf

    def extend_session(self, member_id: str, timeout_ms: int) -> None:
        """Give the member a whole session from now on."""
        self._sessions[member_id] = self._after(timeout_ms)

    def set_step(self, member_id: str, timeout_ms: int, epoch: int) -> None:
        """The member must get beyond `epoch` within `timeout_ms`. A deadline for the same epoch stays as it is."""
        known = self._steps.get(member_id)
        if known is None or known[1] != epoch:
            self._steps[member_id] = (self._after(timeout_ms), epoch)

    def end_step(self, member_id: str) -> None:
        self._steps.pop(member_id, None)

    def remove(self, member_id: str) -> None:
        self._sessions.pop(member_id, None)
        self._steps.pop(member_id, None)

    def clear(self) -> None:
        self._sessions.clear()
        self._steps.clear()

    def _after(self, delay_ms: int) -> float:
        at = self._host.now() + delay_ms / 1000
        if at < self.wake_at:
            self.wake_at = at
        return at

    def wake(self) -> None:
        """Set the timer: `wake_at` may have moved."""
        self._host.wake(self)

    def rearm(self) -> None:
        """Set `wake_at` and the timer to the earliest deadline."""
        steps = [at for at, _ in self._steps.values()]
        self.wake_at = min([*self._sessions.values(), *steps], default=math.inf)
        self.wake()

    def expire(self) -> None:
        """Called by the timer at `wake_at`."""
        self.wake_at = math.inf  # until `take_due` has run
        self._on_due()

    def take_due(self, epoch_of: Callable[[str], int]) -> set[str]:
        """The members whose session, or time for a step, is over; the timer is set for the others.

        A step is over unless the member's epoch is another one by now.
        """
        now = self._host.now()
        due = {member_id for member_id, at in self._sessions.items() if at <= now}
        for member_id, (at, epoch) in list(self._steps.items()):
            if at <= now:
                del self._steps[member_id]
                if epoch_of(member_id) == epoch:
                    due.add(member_id)
        for member_id in due:
            self._sessions.pop(member_id, None)
        self.rearm()
        return due
