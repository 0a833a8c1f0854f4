"""What a broker knows of the machine whose process it is: its number, and the sockets that all processes share."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Callable, Sequence
from typing import Final

from odradek.foundation.named_tuple import NamedTuple

Address = tuple[str, int]

# The parent writes to it once, and holds it open for as long as it runs.
_PIPE: Final = 0


class MachineMember(NamedTuple):
    """One process of a machine, as its parent describes it.

    `listening` has the sockets of each listener, in the order of `listeners`, and `admin_listening` those of --admin.
    `folder` has a socket for each process, where the others ask it for its part of an answer.
    """

    number: int
    processes: int
    folder: str
    restarts: int
    listening: tuple[tuple[socket.socket, ...], ...]
    admin: Address | None
    admin_listening: tuple[socket.socket, ...]

    def socket_path(self, number: int) -> str:
        """Where process `number` answers the others."""
        return f"{self.folder}/{number}"

    @property
    def siblings(self) -> tuple[int, ...]:
        """The numbers of the machine's other processes."""
        return tuple(number for number in range(1, self.processes + 1) if number != self.number)

    def descriptors(self) -> list[int]:
        """The descriptors that the process inherits."""
        return [one.fileno() for row in (*self.listening, self.admin_listening) for one in row]

    def write(self) -> str:
        """The text that `read_member` reads in the process."""
        return json.dumps(
            {
                **self._asdict(),
                "listening": [[one.fileno() for one in row] for row in self.listening],
                "admin_listening": [one.fileno() for one in self.admin_listening],
            }
        )


def read_member(text: str) -> MachineMember:
    """What `MachineMember.write` has written, in the process that has inherited the descriptors."""
    fields = json.loads(text)
    admin = fields["admin"]
    return MachineMember(
        number=fields["number"],
        processes=fields["processes"],
        folder=fields["folder"],
        restarts=fields["restarts"],
        listening=tuple(map(_open, fields["listening"])),
        admin=None if admin is None else (admin[0], admin[1]),
        admin_listening=_open(fields["admin_listening"]),
    )


def watch_parent(on_end: Callable[[str], None]) -> None:
    """Call `on_end` with the reason when the process that started this one has ended: its pipe to us is closed then."""
    loop = asyncio.get_running_loop()

    def read() -> None:
        if not os.read(_PIPE, 1):
            loop.remove_reader(_PIPE)
            on_end("the process that started it has ended")

    loop.add_reader(_PIPE, read)


def _open(descriptors: Sequence[int]) -> tuple[socket.socket, ...]:
    opened = []
    for descriptor in descriptors:
        # The broker's own processes must not hold the machine's ports.
        os.set_inheritable(descriptor, False)
        opened.append(socket.socket(fileno=descriptor))
        opened[-1].setblocking(False)
    return tuple(opened)
