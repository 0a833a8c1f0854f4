"""Admission: how many connections a broker accepts, in all and by address.

`inbound` counts and bounds the requests of one connection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

# Asked with the address of each new connection. None: it may be served at once. Else (seconds, whether it is refused):
# it is served after that time, or closed.
Arrive = Callable[[str], tuple[float, bool] | None]


class Admission:
    """Counts the connections of a broker over all its listeners (max.connections, max.connections.per.ip).

    At `connections_max` listeners stop accepting: new connections wait in the kernel's queue, as with Apache Kafka.
    A connection beyond the bound of its address is closed at once.
    """

    def __init__(
        self,
        *,
        connections_max: int,
        connections_per_ip_max: int,
        per_ip_overrides: Mapping[str, int] | None = None,
    ) -> None:
        self.connections_max = connections_max
        self.connections_per_ip_max = connections_per_ip_max
        self.per_ip_overrides = dict(per_ip_overrides or {})
        self.connections = 0
        self.refused = 0
        self._by_ip: dict[str, int] = {}
        self._waiting_for_room: list[Callable[[], None]] = []

    def change_bounds(
        self, *, connections_max: int, connections_per_ip_max: int, per_ip_overrides: Mapping[str, int]
    ) -> None:
        """Apply other bounds from now on. Open connections stay, even above the bounds."""
        self.connections_max = connections_max
        self.connections_per_ip_max = connections_per_ip_max
        self.per_ip_overrides = dict(per_ip_overrides)
        if not self.is_full:
            self._resume_waiting()

    @property
    def is_full(self) -> bool:
        """Whether no further connection may be accepted now."""
        return self.connections >= self.connections_max

    def admit(self, ip: str) -> bool:
        """Count a new connection from `ip`. False means that its address is at its bound: close the connection."""
        count = self._by_ip.get(ip, 0)
        if count >= self.per_ip_overrides.get(ip, self.connections_per_ip_max):
            self.refused += 1
            return False
        self._by_ip[ip] = count + 1
        self.connections += 1
        return True

    def release(self, ip: str) -> None:
        """Count an admitted connection as ended."""
        count = self._by_ip.get(ip, 0)
        assert count > 0, f"a connection from {ip} ended that was never admitted"
        if count == 1:
            del self._by_ip[ip]
        else:
            self._by_ip[ip] = count - 1
        self.connections -= 1
        self._resume_waiting()

    def _resume_waiting(self) -> None:
        waiting, self._waiting_for_room = self._waiting_for_room, []
        for resume in waiting:
            resume()

    def on_next_release(self, resume: Callable[[], None]) -> None:
        """Call `resume` once, after the next connection has ended."""
        self._waiting_for_room.append(resume)
