"""The number of logins at a listener since the start, by mechanism."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

# Where no mechanism was chosen that the listener has: clients name what they like.
NO_MECHANISM: Final = "none"


class LoginCounts:
    """Logins with one mechanism. `expired` counts connections that were closed when their login had ended."""

    __slots__ = ("expired", "failed", "failed_renewals", "renewals", "successful")

    def __init__(self) -> None:
        self.successful = self.failed = self.renewals = self.failed_renewals = self.expired = 0


class SaslCounters:
    """The logins at one listener with `mechanisms`."""

    def __init__(self, mechanisms: Iterable[str]) -> None:
        self._counts = {name: LoginCounts() for name in (*mechanisms, NO_MECHANISM)}

    def of(self, mechanism: str) -> LoginCounts:
        """The counts of one mechanism, or of none."""
        return self._counts.get(mechanism) or self._counts[NO_MECHANISM]

    def __iter__(self) -> Iterator[tuple[str, LoginCounts]]:
        return iter(self._counts.items())
