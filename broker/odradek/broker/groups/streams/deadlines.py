"""The deadlines of a Streams group's members, and of its first assignment, which waits for more members."""

from __future__ import annotations

import math

from odradek.broker.groups.consumer.deadlines import MemberDeadlines


class StreamsDeadlines(MemberDeadlines):
    """As those of consumer groups, with the loop time at which the first assignment is due."""

    assignment_at: float = math.inf

    def delay_assignment(self, delay_ms: int) -> None:
        """No assignment is computed for this long. A delay that is under way stays as it is."""
        if self.assignment_at == math.inf:
            self.assignment_at = self._after(delay_ms)
            self.wake()

    @property
    def is_assignment_delayed(self) -> bool:
        return self.assignment_at != math.inf

    def take_assignment(self) -> bool:
        """Whether a delayed assignment is due; its delay is over then."""
        if self.assignment_at > self._host.now():
            return False
        self.assignment_at = math.inf
        return True

    def clear(self) -> None:
        super().clear()
        self.assignment_at = math.inf

    def rearm(self) -> None:
        super().rearm()
        if self.assignment_at < self.wake_at:
            self.wake_at = self.assignment_at
            self.wake()
