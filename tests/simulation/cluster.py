"""The cluster of a simulation: `WholeCluster` with crashes of every kind, network partitions, and an observed registry.

Clients reach brokers by stable names (`broker-1.test`), also when a broker runs on another host after its restart.
"""

from __future__ import annotations

import asyncio
import copy
import json
import random
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from odradek.broker.replication.partition import Partition
from odradek.foundation.errors import KafkaStorageError, RequestError
from odradek.metadata.registry.node_tree import Changes
from odradek.metadata.registry.store import Operation
from odradek.network.network import Network
from odradek.wire.protocol.api import ApiKey
from tests.simulation.history import History
from tests.support.field_names import check_field_names
from tests.support.loop import VirtualTimeLoop
from tests.support.memory_registry import MemoryRegistry
from tests.support.registry_faults import RegistryFaults
from tests.support.whole_cluster import PORT, ClusterBroker, WholeCluster

BROKERS: Final = (1, 2, 3)
CONTROLLERS: Final = (100, 101)
TOPIC: Final = "t"
TRANSACTIONAL_TOPIC: Final = "x"
COMPACTED_TOPIC: Final = "k"
DELETED_TOPIC: Final = "d"
NETWORK_SECONDS_MAX: Final = 0.001
WALL_START_MS: Final = 1_700_000_000_000
# Bugs show while something changes. So many seconds after it clients pause longer, by this factor and up to this long.
# Otherwise a third of all requests would be made where nothing happens.
BUSY_SECONDS: Final = 1.0
QUIET_FACTOR: Final = 5.0
QUIET_SECONDS_MAX: Final = 0.5
# Topics with enough replicas that nothing of them may be lost.
LASTING: Final = (
    TOPIC,
    TRANSACTIONAL_TOPIC,
    COMPACTED_TOPIC,
    DELETED_TOPIC,
    "__consumer_offsets",
    "__share_group_state",
    "__transaction_state",
)

_ENTRIES: Final = {
    "replica.lag.time.max.ms": "3000",
    "replica.fetch.wait.max.ms": "500",
    "replica.fetch.backoff.ms": "200",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
    "controlled.shutdown.retry.backoff.ms": "500",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.session.timeout.ms": "3000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.streams.min.session.timeout.ms": "3000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.heartbeat.interval.ms": "1000",
    "group.streams.num.standby.replicas": "1",
}


class ObservedRegistry(MemoryRegistry):
    """Reports every state of a partition that is written: `on_state` gets topic, partition and state."""

    def __init__(self) -> None:
        super().__init__()
        self.on_state: Callable[[str, int, dict[str, Any]], None] = lambda topic, partition, state: None
        self._reported: dict[str, bytes] = {}

    def run(self, operations: Sequence[Operation], *, session: int) -> Changes:
        changes = super().run(operations, session=session)
        for path in sorted(changes):
            if not path.startswith("/brokers/topics/") or not path.endswith("/state"):
                continue
            row = changes[path]
            if row is not None and self._reported.get(path) != row.data:
                self._reported[path] = row.data
                _, _, _, topic, _, partition, _ = path.split("/")
                self.on_state(topic, int(partition), json.loads(row.data))
        return changes


class Memory:
    """Which brokers may lack records: from a loss of power until they are in sync again, partition by partition."""

    def __init__(self) -> None:
        self._lacking: dict[int, set[tuple[str, int]] | None] = {}
        """By broker the partitions; None until it serves again."""
        self._in_sync: dict[tuple[str, int], Collection[int]] = {}

    def forgets(self, broker_id: int) -> None:
        """A broker lost power."""
        self._lacking[broker_id] = None

    def serves(self, broker_id: int) -> None:
        """A broker is back: the controller has taken it out of every in-sync set that has more than it."""
        if self._lacking.get(broker_id, set()) is None:
            self._lacking[broker_id] = {
                key for key, in_sync in self._in_sync.items() if broker_id not in in_sync
            }

    def state_written(self, partition: tuple[str, int], in_sync: Collection[int]) -> None:
        """A replica that joined the in-sync set has caught up."""
        self._in_sync[partition] = in_sync
        for broker_id in in_sync:
            lacking = self._lacking.get(broker_id)
            if lacking is not None:
                lacking.discard(partition)

    def all_others_remember(self, broker_id: int) -> bool:
        """Whether no other broker may lack anything."""
        return not any(
            lacking is None or lacking for other, lacking in self._lacking.items() if other != broker_id
        )


class SimulatedCluster(WholeCluster):
    """Two controllers and three brokers; `begin` starts them and makes the topic."""

    def __init__(self, seed: int, history: History, *, partitions: int) -> None:
        super().__init__(dict(_ENTRIES), seed)
        # Ten thousand requests with the same fields; every other test looks at them.
        check_field_names(is_on=False)
        self.history = history
        self.partition_count = partitions
        self.states: dict[int, dict[str, Any]] = {}
        self.observed = ObservedRegistry()
        self.observed.on_state = self._state_written
        self.registry = self.observed
        self.slow_registry()
        self.ever_started: list[tuple[int, ClusterBroker]] = []
        """Every broker that served, with its id, also those that died."""
        self._ever_seen: dict[int, set[Partition]] = {}
        self._is_peace = False
        self._changed_at = 0.0
        self._return: asyncio.TimerHandle | None = None
        self.memory = Memory()
        self.rotten: set[tuple[int, str]] = set()
        """Brokers and the directories of logs in which a bit flipped."""
        self._ending: dict[int, asyncio.Task[None]] = {}
        self._starting: dict[int, asyncio.Task[None]] = {}
        self.on_state: Callable[[int, dict[str, Any]], None] = lambda partition, state: None
        self.on_broker_made: Callable[[int, ClusterBroker], None] = lambda broker_id, broker: None
        self.has_one_clock = False
        """Whether all processes have one wall clock; else each begins at the same time when it starts."""

    def slow_registry(self, *, lost: float = 0.0) -> None:
        """A registry some milliseconds away, which loses this part of requests and of answers."""
        self.registry.faults = RegistryFaults(
            random.Random(self.chance.getrandbits(64)),
            latency_seconds=(0.0002, 0.004),
            lost_requests=lost,
            lost_answers=lost,
            reconnect_seconds=(0.05, 1.0),
        )

    def take_registry_away(self, seconds: float, *, with_sessions: bool) -> bool:
        """The registry does not answer for that long; returns whether it was there."""
        registry = self.registry
        if registry.is_away:
            return False
        registry.leave()
        self._return = asyncio.get_running_loop().call_later(
            seconds, self._bring_registry_back, with_sessions
        )
        return True

    def _bring_registry_back(self, with_sessions: bool = True) -> None:
        if self._return is not None:
            self._return.cancel()
            self._return = None
        if self.registry.is_away:
            self.note_change()
            self.history.add("registry", "is back" + ("" if with_sessions else ", without sessions"))
            rng = random.Random(self.chance.getrandbits(64))
            # As kazoo's pauses between attempts.
            self.registry.come_back(
                with_sessions=with_sessions, reconnect_seconds=lambda: rng.uniform(0.01, 1.0)
            )

    def note_change(self) -> None:
        """Something fails, returns or has another leader: clients are busy for a while."""
        self._changed_at = asyncio.get_running_loop().time()

    def pause_seconds(self, seconds: float) -> float:
        """How long a client pauses that would pause `seconds` while something changes."""
        if asyncio.get_running_loop().time() - self._changed_at <= BUSY_SECONDS:
            return seconds
        return max(seconds, min(seconds * QUIET_FACTOR, QUIET_SECONDS_MAX))

    def _state_written(self, topic: str, partition: int, state: dict[str, Any]) -> None:
        self.note_change()
        eligible = f" eligible {state['elr']}" if "elr" in state else ""
        self.history.add(
            "registry",
            f"{topic}-{partition} leader {state['leader']} epoch {state['leader_epoch']} isr {state['isr']}{eligible}",
        )
        if topic in LASTING:
            self.memory.state_written((topic, partition), state["isr"])
        if topic == TOPIC:
            self.states[partition] = state
            self.on_state(partition, state)

    # --- life ----------------------------------------------------------------------------------------------------

    def _parts(self, host: str) -> dict[str, Any]:
        parts = super()._parts(host)
        if self.has_one_clock:
            parts["clock"].shift(self.wall_ms() - parts["clock"].wall_ms())
        return parts

    def wall_ms(self) -> int:
        """The clock that all processes have when they have one."""
        return WALL_START_MS + round(asyncio.get_running_loop().time() * 1000)

    def make_broker(self, broker_id: int, **entries: str) -> ClusterBroker:
        broker = super().make_broker(broker_id, **entries)
        self.on_broker_made(broker_id, broker)
        return broker

    async def begin(self) -> None:
        for number in CONTROLLERS:
            await self.start_controller(number)
        for number in BROKERS:
            await self.bring_up(number)
        answer = await self.ask(
            1,
            ApiKey.CREATE_TOPICS,
            7,
            topics=[
                {
                    "name": TOPIC,
                    "num_partitions": self.partition_count,
                    "replication_factor": len(BROKERS),
                    "assignments": [],
                    "configs": [{"name": "min.insync.replicas", "value": "2"}],
                }
            ],
            timeout=30_000,
            validate_only=False,
        )
        assert int(answer.topics[0].error_code) == 0, answer

    async def bring_up(self, broker_id: int) -> None:
        """Start a broker and count it among those that serve; not one whose disk is full or fails."""
        was_peace = self._is_peace
        try:
            broker = await self.start_broker(broker_id)
        except KafkaStorageError as failure:
            self.history.add(f"broker {broker_id}", f"cannot start: {failure}")
            if self._is_peace and not was_peace:
                # The fault came before the disk was mended; what watches over processes starts it again.
                await self.bring_up(broker_id)
            return
        self.ever_started.append((broker_id, broker))
        # A replica may come, serve and be given up between two looks.
        broker.images.subscribe(lambda old, new: self._note_replicas(broker))
        self._note_replicas(broker)
        self.memory.serves(broker_id)
        self.note_change()
        self.history.add(f"broker {broker_id}", "serves")

    def begin_start(self, broker_id: int) -> None:
        """Start a broker in the background: it may have to wait for a controller, or for its former session's end."""
        if any(broker_id in those for those in (self.brokers, self._starting, self._ending)):
            return
        self.history.add(f"broker {broker_id}", "starts")
        task = asyncio.create_task(self.bring_up(broker_id), name=f"start of broker {broker_id}")
        self._starting[broker_id] = task
        task.add_done_callback(lambda _: self._starting.pop(broker_id, None))

    async def all_started(self) -> None:
        """Wait for all that end, and for all that start; a start that failed is raised here."""
        await asyncio.gather(*self._ending.values())
        for number in BROKERS:
            self.begin_start(number)
        await asyncio.gather(*self._starting.values())

    def crash(self, broker_id: int, *, power_loss: bool, expire: bool) -> None:
        """The process dies at once. With `power_loss` what was not synced survives by chance alone, with `expire` its
        session ends now, else when it times out.
        """
        broker = self.brokers.pop(broker_id)
        self._clients.pop(broker_id, None)
        host = self.host(broker_id)
        self.disks[broker_id].on_call = None
        disk = self.disks[broker_id] = copy.deepcopy(self.disks[broker_id])
        if power_loss:
            self.memory.forgets(broker_id)
            disk.crash(random.Random(self.chance.getrandbits(64)))
        else:
            disk.kill()
        store = self.stores.pop(host)
        store.sever()
        if expire:
            store.expire()
        self.network.reset(host)
        # Half of the machines without power are gone, and half come back at once.
        self.network.isolate(host, is_dark=power_loss and self.chance.random() < 0.5)
        self._dead.append(broker)

    def on_refused(self, broker_id: int, reason: str) -> None:
        """A broker cannot continue, as with a failed disk: its process shuts down cleanly, and the disk is repaired."""
        super().on_refused(broker_id, reason)
        self.history.add(f"broker {broker_id}", f"must end: {reason}")
        if broker_id in self.brokers:
            self._ending[broker_id] = asyncio.create_task(self._end(broker_id))

    async def _end(self, broker_id: int) -> None:
        await self.stop_broker(broker_id)
        self.disks[broker_id].failing_paths.clear()
        self.history.add(f"broker {broker_id}", "ended")
        del self._ending[broker_id]
        if self._is_peace:
            # What watches over processes starts them again; before, that is a matter of chance.
            self.begin_start(broker_id)

    def slow_network(self, seconds_max: float) -> None:
        """How long a message takes at most."""
        self.network.delay_seconds = (0.0001, seconds_max)

    def slow_disks(self, seconds_max: float) -> None:
        """How long a flush or a scan takes at most."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop), "a simulation runs on virtual time"
        rng = random.Random(self.chance.getrandbits(64))
        loop.work_seconds = (lambda: rng.uniform(0.0, seconds_max)) if seconds_max else None

    def rot(self, broker_id: int, *, expire: bool) -> None:
        """The process dies, and a bit of one of its logs flips while it is stopped. The records behind it are lost, as
        after a power failure.
        """
        self.memory.forgets(broker_id)
        self.crash(broker_id, power_loss=False, expire=expire)
        disk = self.disks[broker_id]
        logs = [path for path in disk.paths(".log") if disk.size_bytes(path)]
        if logs:
            path = self.chance.choice(logs)
            self.rotten.add((broker_id, path.split("/")[-2]))
            disk.flip_bit(path, self.chance.randrange(disk.size_bytes(path) * 8))

    def restore(self) -> None:
        """The network is whole, disks and the registry work, and dead processes are started."""
        self.note_change()
        self.network.heal()
        self.slow_network(NETWORK_SECONDS_MAX)
        self.slow_disks(0.0)
        for disk in self.disks.values():
            disk.capacity_bytes = None
            disk.failing_paths.clear()
            disk.on_call = None
        self.slow_registry()
        self._bring_registry_back()
        for store in list(self.stores.values()):
            store.mend()
        for number in BROKERS:
            self.begin_start(number)

    def make_peace(self) -> None:
        """Restore it permanently."""
        self._is_peace = True
        self.restore()

    # --- looking -------------------------------------------------------------------------------------------------

    def hosts(self) -> list[str]:
        """Where the live processes run."""
        return [self.host(number) for number in (*sorted(self.brokers), *sorted(self.controllers))]

    def partition_of(self, broker: ClusterBroker, index: int) -> Partition | None:
        """A broker's replica; None while the broker does not know of it."""
        try:
            found = broker.partitions.get(TOPIC, index)
        except RequestError:
            return None
        self._ever_seen.setdefault(index, set()).add(found)
        return found

    def _note_replicas(self, broker: ClusterBroker) -> None:
        for index in range(self.partition_count):
            self.partition_of(broker, index)

    def high_watermark(self, index: int) -> int:
        """The highest that any replica ever came to, also those that their brokers gave up since."""
        for _, broker in self.ever_started:
            self.partition_of(broker, index)
        return max((one.high_watermark for one in self._ever_seen.get(index, ())), default=0)

    def client_network(self, host: str) -> Network:
        """The network as a client's host sees it."""
        return _NamedBrokers(self, host)

    @staticmethod
    def bootstrap() -> str:
        return ",".join(f"broker-{number}.test:{PORT}" for number in BROKERS)

    def address_of(self, host: str) -> str:
        names = {f"broker-{number}.test": number for number in BROKERS}
        return self.host(names[host]) if host in names else host


class _NamedBrokers:
    """A host's network on which brokers have names that last."""

    def __init__(self, cluster: SimulatedCluster, host: str) -> None:
        self._cluster = cluster
        self._network = cluster.network.at(host)

    async def connect(self, protocol_factory: Any, *, host: str, port: int) -> Any:
        return await self._network.connect(protocol_factory, host=self._cluster.address_of(host), port=port)

    async def listen(self, protocol_factory: Any, **where: Any) -> Any:
        return await self._network.listen(protocol_factory, **where)
