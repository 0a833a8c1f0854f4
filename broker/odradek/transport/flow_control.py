"""How much is let in: connections in all and by address.

How much one connection may have under way is decided in `inbound`, where it is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping


class Admission:
    """Counts the connections of a broker over all its listeners (max.connections, max.connections.per.ip).

    At `connections_max` listeners stop accepting, so that new connections wait in the kernel's queue as
    with Apache Kafka; one beyond its address's bound is closed at once.
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
        """Other bounds from now on. Connections that are open already stay, whatever their number."""
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
        """Count a new connection from `ip`; False when its address has its share already and it must be
        closed.
        """
        count = self._by_ip.get(ip, 0)
        if count >= self.per_ip_overrides.get(ip, self.connections_per_ip_max):
            self.refused += 1
            return False
        self._by_ip[ip] = count + 1
        self.connections += 1
        return True

    def release(self, ip: str) -> None:
        """An admitted connection has ended."""
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

    def when_room(self, resume: Callable[[], None]) -> None:
        """Call `resume` once, after the next connection has ended."""
        self._waiting_for_room.append(resume)
