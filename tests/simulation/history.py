"""What happened in one run, in order: to be read when a seed fails, and compared when it is played again."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, field


class InvariantBroken(AssertionError):
    """Something that must hold does not; begins with the invariant's name."""


@dataclass(slots=True)
class History:
    """Lines of time, actor and deed. Times are virtual seconds since the run began."""

    seed: int
    lines: list[str] = field(default_factory=list)
    _began: float | None = None

    def add(self, who: str, what: str) -> None:
        now = asyncio.get_running_loop().time()
        if self._began is None:
            self._began = now
        self.lines.append(f"{now - self._began:10.4f}  {who:<14} {what}")

    def digest(self) -> str:
        """The same for the same history."""
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()

    def require(self, holds: bool, invariant: str, what: str) -> None:
        """Raise InvariantBroken with the whole history unless it holds."""
        if not holds:
            self.add("CHECKER", f"{invariant} broken: {what}")
            raise InvariantBroken(f"{invariant}: {what}\nseed {self.seed}\n" + "\n".join(self.lines))
