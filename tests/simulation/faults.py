"""What goes wrong in a simulation, chosen by chance: each fault is a method, and what it breaks another one mends.

Acknowledged records are on two brokers, so only one at a time may lose its page cache. No other broker loses power
until the first has caught up everywhere. Anything else may happen to the others at the same time.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import random
from typing import Final

from tests.simulation.cluster import BROKERS, CONTROLLERS, QUIET_SECONDS_MAX, SimulatedCluster

KINDS: Final = (
    "crash",
    "power_loss",
    "restart",
    "cut",
    "cut_one_way",
    "isolate_broker",
    "reset",
    "expire_broker",
    "sever_broker",
    "crash_controller",
    "expire_controller",
    "lossy_registry",
    "registry_away",
    "cut_from_all",
    "slow_network",
    "slow_disks",
    "full_disk",
    "failed_disk",
    "bit_rot",
    "heal",
)


# What brings out bugs of compaction; only where something is compacted.
KINDS_OF_COMPACTION: Final = ("crash_in_swap", "away")
# Longer than deletions are remembered.
AWAY_SECONDS: Final = (3.0, 8.0)
SWAP_CALLS: Final = 20
SWAP_SECONDS_MAX: Final = 5.0


class Faults:
    """Faults on one cluster, one after another."""

    def __init__(self, cluster: SimulatedCluster, rng: random.Random) -> None:
        self._cluster = cluster
        self._rng = rng
        self._note = cluster.history.add
        self._away_until: dict[int, float] = {}

    async def run(self, *, count: int, kinds: tuple[str, ...]) -> None:
        """`count` faults with pauses between; what died is started again after a while."""
        for _ in range(count):
            pause_seconds = self._rng.choice([0.05, 0.5, 1.5, 4.0]) * self._rng.uniform(0.5, 1.5)
            notice_seconds = min(pause_seconds, QUIET_SECONDS_MAX)
            await asyncio.sleep(pause_seconds - notice_seconds)
            # It meets clients at work.
            self._cluster.note_change()
            await asyncio.sleep(notice_seconds)
            self._cluster.note_change()
            await getattr(self, f"_{self._rng.choice(kinds)}")()
            self._start_some()

    def _start_some(self) -> None:
        for broker_id in BROKERS:
            is_away = self._away_until.get(broker_id, 0.0) > asyncio.get_running_loop().time()
            if broker_id not in self._cluster.brokers and not is_away and self._rng.random() < 0.5:
                self._cluster.begin_start(broker_id)

    def _live(self) -> int:
        """Some live broker; 0 when there is none."""
        live = sorted(self._cluster.brokers)
        return self._rng.choice(live) if live else 0

    # --- brokers -------------------------------------------------------------------------------------------------

    async def _crash(self) -> None:
        if broker_id := self._live():
            expire = self._rng.random() < 0.5
            self._note("FAULT", f"broker {broker_id} is killed" + (", its session ends" if expire else ""))
            self._cluster.crash(broker_id, power_loss=False, expire=expire)

    async def _power_loss(self) -> None:
        broker_id = self._live()
        if broker_id and self._cluster.memory.all_others_remember(broker_id):
            self._note("FAULT", f"broker {broker_id} loses power")
            self._cluster.crash(broker_id, power_loss=True, expire=self._rng.random() < 0.5)

    async def _restart(self) -> None:
        if broker_id := self._live():
            self._note("FAULT", f"broker {broker_id} is stopped in order")
            await self._cluster.stop_broker(broker_id)
            self._note(f"broker {broker_id}", "stopped")

    async def _away(self) -> None:
        """A broker is killed and stays away, while the others continue."""
        if broker_id := self._live():
            seconds = self._rng.uniform(*AWAY_SECONDS)
            self._note("FAULT", f"broker {broker_id} is killed and stays away for {seconds:.1f} s")
            self._cluster.crash(broker_id, power_loss=False, expire=True)
            self._away_until[broker_id] = asyncio.get_running_loop().time() + seconds
            await asyncio.sleep(seconds * self._rng.choice([0.3, 1.0]))

    async def _crash_in_swap(self) -> None:
        """A broker dies between two calls of its disk, the next time that it swaps compacted segments in."""
        if broker_id := self._live():
            steps, loses_power = self._rng.randrange(SWAP_CALLS), self._rng.random() < 0.5
            expire = self._rng.random() < 0.5
            self._note("FAULT", f"broker {broker_id} will die in its next swap, after {steps} calls")
            cluster, folder = self._cluster, ""
            died = asyncio.Event()

            def count(kind: str, path: str) -> None:
                nonlocal steps, folder
                if not folder and kind == "rename" and path.endswith(".cleaned"):
                    folder = path.rpartition("/")[0]
                if not folder or not path.startswith(folder):
                    return
                steps -= 1
                if steps < 0:
                    cluster.disks[broker_id].on_call = None
                    died.set()
                    if broker_id in cluster.brokers:
                        power = loses_power and cluster.memory.all_others_remember(broker_id)
                        how = "loses power" if power else "is killed"
                        self._note("FAULT", f"broker {broker_id} {how} at {kind} of {path}")
                        cluster.crash(broker_id, power_loss=power, expire=expire)

            cluster.disks[broker_id].on_call = count
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SWAP_SECONDS_MAX):
                    await died.wait()

    # --- disks ---------------------------------------------------------------------------------------------------

    async def _slow_disks(self) -> None:
        seconds = self._rng.choice([0.01, 0.5])
        self._note("FAULT", f"flushes and scans take up to {seconds:g} s")
        self._cluster.slow_disks(seconds)

    async def _full_disk(self) -> None:
        if broker_id := self._live():
            disk = self._cluster.disks[broker_id]
            room, seconds = self._rng.choice([0, 100, 5_000]), self._rng.choice([1.0, 5.0])
            self._note("FAULT", f"the disk of broker {broker_id} has room for {room} bytes for {seconds:g} s")
            disk.capacity_bytes = disk.used_bytes + room

            def make_room() -> None:
                # Also the copy of it that the next start uses.
                disk.capacity_bytes = self._cluster.disks[broker_id].capacity_bytes = None

            asyncio.get_running_loop().call_later(seconds, make_room)

    async def _failed_disk(self) -> None:
        if broker_id := self._live():
            self._note("FAULT", f"the disk of broker {broker_id} fails")
            self._cluster.disks[broker_id].fail_path("/logs", errno.EIO)

    async def _bit_rot(self) -> None:
        broker_id = self._live()
        if broker_id and self._cluster.memory.all_others_remember(broker_id):
            self._note("FAULT", f"broker {broker_id} is killed, and a bit of a log flips")
            self._cluster.rot(broker_id, expire=self._rng.random() < 0.5)

    # --- the network ---------------------------------------------------------------------------------------------

    def _two_hosts(self) -> tuple[str, str]:
        first, second = self._rng.sample([*self._cluster.hosts(), "p0", "p1", "reader"], 2)
        return first, second

    async def _cut(self) -> None:
        one, other = self._two_hosts()
        self._note("FAULT", f"{one} and {other} do not reach each other")
        self._cluster.network.part(one, other)

    async def _cut_one_way(self) -> None:
        one, other = self._two_hosts()
        self._note("FAULT", f"{one} does not reach {other}")
        self._cluster.network.part_one_way(one, other)

    async def _isolate_broker(self) -> None:
        if broker_id := self._live():
            host = self._cluster.host(broker_id)
            self._note("FAULT", f"{host} reaches no broker and no controller")
            for other in self._cluster.hosts():
                if other != host:
                    self._cluster.network.part(host, other)

    async def _slow_network(self) -> None:
        seconds = self._rng.choice([0.02, 0.3])
        self._note("FAULT", f"messages take up to {seconds:g} s")
        self._cluster.slow_network(seconds)

    async def _reset(self) -> None:
        host = self._rng.choice(self._cluster.hosts())
        self._note("FAULT", f"every connection of {host} breaks")
        self._cluster.network.reset(host)

    async def _heal(self) -> None:
        self._note("FAULT", "all is mended")
        self._cluster.restore()

    # --- the registry and the controllers --------------------------------------------------------------------------

    async def _expire_broker(self) -> None:
        if broker_id := self._live():
            self._note("FAULT", f"the session of broker {broker_id} ends")
            self._cluster.stores[self._cluster.host(broker_id)].expire()

    async def _sever_broker(self) -> None:
        if broker_id := self._live():
            seconds = self._rng.choice([1.0, 5.0, 12.0])
            host = self._cluster.host(broker_id)
            store = self._cluster.stores[host]
            self._note("FAULT", f"broker {broker_id} does not reach the registry for {seconds:g} s")
            store.sever()

            def mend() -> None:
                if self._cluster.stores.get(host) is store:
                    store.mend()

            asyncio.get_running_loop().call_later(seconds, mend)

    async def _expire_controller(self) -> None:
        active = self._cluster.active
        if active is not None:
            self._note("FAULT", f"the session of controller {active.id} ends")
            self._cluster.stores[self._cluster.host(active.id)].expire()

    async def _crash_controller(self) -> None:
        active = self._cluster.active
        number = active.id if active is not None else self._rng.choice(CONTROLLERS)
        self._note("FAULT", f"controller {number} is killed and another is started in its place")
        self._cluster.kill_controller(number)
        await self._cluster.start_controller(number)

    async def _registry_away(self) -> None:
        """For all processes, for some time from here on; other faults happen during it."""
        seconds = self._rng.choice([3.0, 10.0, 20.0, 120.0])
        with_sessions = self._rng.random() < 0.7
        if self._cluster.take_registry_away(seconds, with_sessions=with_sessions):
            kept = "then with its sessions" if with_sessions else "then without any session"
            self._note("FAULT", f"the registry is away for {seconds:g} s, {kept}")
            # Long enough that sessions would be over.
            await asyncio.sleep(seconds * self._rng.choice([0.1, 0.1, 0.9]))

    async def _cut_from_all(self) -> None:
        """One broker alone: for its clients it is there as before."""
        if broker_id := self._live():
            host = self._cluster.host(broker_id)
            store = self._cluster.stores[host]
            seconds = self._rng.choice([5.0, 15.0])
            is_one_way = self._rng.random() < 0.5
            how = ", which still receive its messages" if is_one_way else ""
            self._note("FAULT", f"broker {broker_id} is cut off from all but clients{how} for {seconds:g} s")
            for other in self._cluster.hosts():
                if other != host:
                    self._cluster.network.part_one_way(other, host)
                    if not is_one_way:
                        self._cluster.network.part_one_way(host, other)
            store.sever()

            def rejoin() -> None:
                # The registry is unreachable for longer, and held messages arrive before.
                for other in self._cluster.hosts():
                    self._cluster.network.rejoin(host, other)

            def mend() -> None:
                if self._cluster.stores.get(host) is store:
                    store.mend()

            loop = asyncio.get_running_loop()
            loop.call_later(seconds * self._rng.choice([0.3, 0.8]), rejoin)
            loop.call_later(seconds, mend)
            await asyncio.sleep(seconds * self._rng.choice([0.1, 0.9]))

    async def _lossy_registry(self) -> None:
        self._note("FAULT", "the registry loses requests and answers")
        self._cluster.slow_registry(lost=self._rng.choice([0.01, 0.05]))
