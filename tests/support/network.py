"""A network in memory with the faults of a real one, repeatable from a seed.

Bytes take `delay_seconds`, arrive in order and in pieces of random size, and wait where the receiver does not read. A
direction holds `socket_bytes` at most; then its sender's transport fills up as with TCP. Hosts can be parted, both ways
or one (bytes and connections wait, as behind a dead switch), connections can be reset.

    network = MemoryNetwork(random.Random(seed))
    network.at("broker-1")     # what a process on that host is handed as its Network
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Any

from odradek.network.flow_control import Admission, Arrive

Address = tuple[str, int]

# As Linux gives up on a machine that does not answer.
CONNECT_SECONDS_MAX = 127.0


class MemoryNetwork:
    """All hosts and what is between them."""

    def __init__(
        self,
        chance: random.Random,
        *,
        delay_seconds: tuple[float, float] = (0.0001, 0.001),
        socket_bytes: int = 128 * 1024,
        piece_bytes_max: int = 64 * 1024,
    ) -> None:
        self.chance = chance
        self.delay_seconds = delay_seconds
        self.socket_bytes = socket_bytes
        self.piece_bytes_max = piece_bytes_max
        self.connections: list[MemoryTransport] = []
        self.listening: dict[Address, MemoryListening] = {}
        self._parted: set[tuple[str, str]] = set()  # (from, to)
        self._isolated: set[str] = set()
        self._dark: set[str] = set()
        self._next_port = 40_000
        self._healed: list[asyncio.Event] = []

    def at(self, host: str) -> HostNetwork:
        return HostNetwork(self, host)

    def free_port(self) -> int:
        self._next_port += 1
        return self._next_port

    def part(self, one: str, other: str) -> None:
        """Nothing passes between the two hosts until `heal`."""
        self.part_one_way(one, other)
        self.part_one_way(other, one)

    def part_one_way(self, source: str, target: str) -> None:
        """Nothing that `source` sends reaches `target` until `heal`; a connection cannot be made either way."""
        self._parted.add((source, target))

    def heal(self) -> None:
        """All hosts reach each other again; what waited is delivered."""
        self._parted.clear()
        self._passable()

    def rejoin(self, one: str, other: str) -> None:
        """These two hosts reach each other again; what waited is delivered."""
        self._parted -= {(one, other), (other, one)}
        self._passable()

    def _passable(self) -> None:
        for transport in list(self.connections):
            transport.flow()
        healed, self._healed = self._healed, []
        for event in healed:
            event.set()

    def isolate(self, host: str, *, is_dark: bool = False) -> None:
        """The host is unreachable in both directions, also after `heal`. Connections to it are refused, or where it is
        dark never answered.
        """
        self._isolated.add(host)
        if is_dark:
            self._dark.add(host)
        self.stop_listening(host)

    def is_parted(self, source: str, target: str) -> bool:
        """Whether nothing gets from `source` to `target`."""
        if not self._parted and not self._isolated:
            return False
        return (source, target) in self._parted or source in self._isolated or target in self._isolated

    async def passage(self, one: str, other: str) -> None:
        """Wait until the two hosts reach each other."""
        while self.is_parted(one, other) or self.is_parted(other, one):
            event = asyncio.Event()
            self._healed.append(event)
            await event.wait()

    def reset(self, host: str) -> None:
        """Reset every connection of `host`, as when its process is killed."""
        for transport in list(self.connections):
            if transport.local[0] == host:
                transport.abort()

    def stop_listening(self, host: str) -> None:
        """As when the process there is killed: none listens, and another process may."""
        for address in [one for one in self.listening if one[0] == host]:
            del self.listening[address]

    def delay(self) -> float:
        least, most = self.delay_seconds
        return least + (most - least) * self.chance.random()


class HostNetwork:
    """The network as one host sees it; an `odradek.network.network.Network`."""

    def __init__(self, network: MemoryNetwork, host: str) -> None:
        self._network = network
        self._host = host

    async def listen(
        self,
        protocol_factory: Callable[[str], asyncio.BaseProtocol],
        *,
        host: str,
        port: int,
        admission: Admission,
        backlog: int = 50,
        arrive: Arrive | None = None,
    ) -> MemoryListening:
        address = (self._host, port or self._network.free_port())
        if address in self._network.listening:
            raise OSError(98, f"cannot listen on {address[0]}:{address[1]}: it is in use")
        listening = MemoryListening(self._network, address, protocol_factory, admission, arrive)
        self._network.listening[address] = listening
        return listening

    async def connect(
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], *, host: str, port: int
    ) -> tuple[asyncio.Transport, Any]:
        network = self._network
        await asyncio.sleep(network.delay())
        if host in network._dark:
            # Until the caller's patience ends, or the kernel's.
            await asyncio.sleep(CONNECT_SECONDS_MAX)
            raise TimeoutError(110, f"nothing answers at {host}:{port}")
        if host in network._isolated:
            raise ConnectionRefusedError(111, f"no process listens on {host}:{port}")
        await network.passage(self._host, host)
        listening = network.listening.get((host, port))
        if listening is None:
            raise ConnectionRefusedError(111, f"no process listens on {host}:{port}")
        await listening.room(self._host)
        here = (self._host, network.free_port())
        near = MemoryTransport(network, here, (host, port))
        far = MemoryTransport(network, (host, port), here)
        near.other, far.other = far, near
        if not listening.admission.admit(self._host):
            raise ConnectionResetError(104, f"{host}:{port} closed the connection")
        protocol = protocol_factory()
        far.begin(listening.protocol_factory(self._host))
        near.begin(protocol)
        return near, protocol


class ChangesAfterConnect(HostNetwork):
    """Connects as `HostNetwork`. The next of `changes` happens as each attempt succeeds, before its caller runs."""

    def __init__(self, network: MemoryNetwork, host: str, changes: list[Callable[[], None]]) -> None:
        super().__init__(network, host)
        self.changes = changes

    async def connect(
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], *, host: str, port: int
    ) -> tuple[asyncio.Transport, Any]:
        made = await super().connect(protocol_factory, host=host, port=port)
        asyncio.get_running_loop().call_soon(self.changes.pop(0))
        return made


class MemoryListening:
    """An address that accepts connections."""

    def __init__(
        self,
        network: MemoryNetwork,
        address: Address,
        protocol_factory: Callable[[str], asyncio.BaseProtocol],
        admission: Admission,
        arrive: Arrive | None,
    ) -> None:
        self._network = network
        self._address = address
        self.protocol_factory = protocol_factory
        self.admission = admission
        self._arrive = arrive
        self._is_accepting = asyncio.Event()
        self._pace = asyncio.Lock()

    @property
    def addresses(self) -> list[Address]:
        return [self._address]

    def accept(self) -> None:
        self._is_accepting.set()

    async def room(self, host: str) -> None:
        await self._is_accepting.wait()
        async with self._pace:
            early = None if self._arrive is None else self._arrive(host)
            if early is not None and not early[1]:
                # All behind it wait too.
                await asyncio.sleep(early[0])
        if early is not None and early[1]:
            await asyncio.sleep(early[0])
            raise ConnectionResetError(104, "the connection was held and closed")
        if self._network.listening.get(self._address) is not self:
            raise ConnectionRefusedError(
                111, f"no process listens on {self._address[0]}:{self._address[1]} any more"
            )
        while self.admission.is_full:
            event = asyncio.Event()
            self.admission.on_next_release(event.set)
            await event.wait()

    async def close(self) -> None:
        self._network.listening.pop(self._address, None)
        self._is_accepting.set()


class MemoryTransport(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, network: MemoryNetwork, local: Address, peer: Address) -> None:
        super().__init__({"sockname": local, "peername": peer, "socket": None})
        self._loop = asyncio.get_running_loop()
        self._network = network
        self.local = local
        self.other: MemoryTransport
        self._protocol: Any = None
        self._unsent = bytearray()
        self._wire: deque[bytes] = deque()  # on the way to the other end
        self._wire_bytes = 0
        self._is_delivering = False
        self._is_reading = True
        self._is_closing = False
        self._is_lost = False
        self._is_eof_sent = False
        self._is_protocol_paused = False
        self._high, self._low = 64 * 1024, 16 * 1024
        self.unsent_bytes_seen_max = 0
        network.connections.append(self)

    def begin(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
        self._protocol.connection_made(self)

    # --- sending ------------------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing or self._is_lost:
            return
        self._unsent += data
        self.flow()
        unsent_bytes = len(self._unsent)
        if unsent_bytes > self.unsent_bytes_seen_max:
            self.unsent_bytes_seen_max = unsent_bytes
        if unsent_bytes > self._high and not self._is_protocol_paused:
            self._is_protocol_paused = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def flow(self) -> None:
        """Move what the sockets' buffers have room for, and see to its delivery."""
        network = self._network
        # As TCP does, wait until there is room worth filling, or pieces would become ever smaller.
        while self._unsent:
            room = network.socket_bytes - self._wire_bytes
            if room < min(len(self._unsent), network.socket_bytes // 4):
                break
            size = min(len(self._unsent), room, network.chance.randint(1, network.piece_bytes_max))
            self._wire.append(bytes(self._unsent[:size]))
            self._wire_bytes += size
            del self._unsent[:size]
        if self._is_protocol_paused and len(self._unsent) <= self._low:
            self._is_protocol_paused = False
            self._protocol.resume_writing()
        if self._is_delivering or self._is_eof_sent or network.is_parted(self.local[0], self.other.local[0]):
            return
        if (self._wire and self.other._is_reading) or (self._is_closing and not self._wire):
            self._is_delivering = True
            self._loop.call_later(network.delay(), self._deliver)

    def _deliver(self) -> None:
        self._is_delivering = False
        if self._is_lost and not self._is_closing:
            return
        if self._network.is_parted(self.local[0], self.other.local[0]):
            return
        if self._wire:
            if not self.other._is_reading:
                return
            piece = self._wire.popleft()
            self._wire_bytes -= len(piece)
            self.other.receive(piece)
        elif self._is_closing and not self._unsent:
            self._is_eof_sent = True
            self._lose(None)
            self.other.received_eof()
            return
        self.flow()

    # --- receiving ----------------------------------------------------------------------------------------

    def receive(self, piece: bytes) -> None:
        if self._is_lost or self._is_closing:
            return
        if not isinstance(self._protocol, asyncio.BufferedProtocol):
            self._protocol.data_received(piece)
            return
        rest = memoryview(piece)
        while rest and not self._is_lost:
            buffer = self._protocol.get_buffer(-1)
            assert isinstance(buffer, memoryview | bytearray), "protocols hand out their own memory"
            size = min(len(buffer), len(rest))
            buffer[:size] = rest[:size]
            self._protocol.buffer_updated(size)
            rest = rest[size:]

    def received_eof(self) -> None:
        if not self._is_lost:
            self._protocol.eof_received()
            self.close()

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        if not self._is_closing:
            self._is_reading = True
            self.other.flow()

    def is_reading(self) -> bool:
        return self._is_reading

    # --- the end ------------------------------------------------------------------------------------------

    def close(self) -> None:
        if self._is_closing or self._is_lost:
            return
        self._is_closing = True
        if self.other._is_lost:
            self._lose(None)
        else:
            self.flow()

    def abort(self) -> None:
        self._unsent.clear()
        self._wire.clear()
        self._lose(None)
        other = self.other
        self._loop.call_later(self._network.delay(), other._lose, ConnectionResetError(104, "reset by peer"))

    def is_closing(self) -> bool:
        return self._is_closing or self._is_lost

    def _lose(self, failure: Exception | None) -> None:
        if self._is_lost:
            return
        self._is_lost = True
        self._is_closing = True
        self._network.connections.remove(self)
        self._loop.call_soon(self._protocol.connection_lost, failure)

    # --- the rest of the interface ------------------------------------------------------------------------

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 64 * 1024 if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> Any:
        return self._protocol
