"""Several brokers' partitions in one process, on virtual time.

Logs on simulated disks, handlers, fetchers and in-sync sets are real. The controller is a few lines over the real
rules, and the network is a delay.

    cluster = await ReplicaCluster.start(brokers=3, replicas=(1, 2, 3))
    await cluster.produce(1, b"value")
    cluster.disconnect(1, 3)

Requests go through their bytes and the dispatcher. What the controller decides reaches brokers after a while, each in
its own time, in order.
"""

from __future__ import annotations

import asyncio
import inspect
import random
import uuid
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from odradek.broker.replication.blocking import BlockingWork
from odradek.broker.replication.broker_transport import BrokerRequest, Response
from odradek.broker.replication.fetcher_manager import ReplicaFetcherManager
from odradek.broker.replication.flusher import Flusher
from odradek.broker.replication.hosted_partitions import HostedPartitions
from odradek.broker.replication.housekeeping import Housekeeping
from odradek.broker.replication.in_sync_proposals import InSyncSets, Proposal
from odradek.broker.replication.in_sync_rules import FollowerStates
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.purgatory import Purgatory
from odradek.broker.requests.context import RequestParts
from odradek.broker.requests.counters import RequestCounters
from odradek.broker.requests.dispatch import Dispatcher
from odradek.broker.requests.fetch.sessions import FetchSessionCache
from odradek.broker.requests.parts import FetchParts, PartitionParts, ProduceParts
from odradek.foundation.errors import RequestError
from odradek.foundation.settings.broker_settings import Settings
from odradek.metadata.controller import leader_election, reassignment_steps
from odradek.metadata.image.image import (
    BrokerImage,
    ClusterImage,
    ImageHolder,
    PartitionImage,
    ResourceKind,
    TopicImage,
)
from odradek.network.connection import Connection
from odradek.storage.directories.log_manager import LogManager
from odradek.wire.protocol import codec, messages
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.framing import parse_request_header
from tests.support.disk import SimulatedDisk
from tests.support.field_names import check_field_names
from tests.support.logs import load, stored_records
from tests.support.loop import LoopClock, stop_at_end
from tests.support.polling import eventually
from tests.support.whole_broker import batch, decoded

TOPIC_ID = uuid.UUID(int=77)
# For parts of a broker that these requests do not reach.
_NOTHING: Any = None
SETTINGS = {
    "log.dirs": "/logs",
    "replica.lag.time.max.ms": "10000",
    "replica.fetch.backoff.ms": "100",
    "log.initial.task.delay.ms": "100",
}


def follower_states(partition: Partition) -> FollowerStates:
    """What the leader of a partition with followers knows of them."""
    followers = partition.require_leader().followers
    assert followers is not None
    return followers


class _ReplicaParts:
    def __init__(
        self,
        *,
        partitions: HostedPartitions,
        log_manager: LogManager,
        settings: Settings,
        clock: LoopClock,
        images: ImageHolder,
        purgatory: Purgatory,
        rng: random.Random,
        blocking: BlockingWork,
    ) -> None:
        counters = RequestCounters()
        self.shared: Final = RequestParts(images=images, counters=counters, optional_long_work=blocking)
        self.produce: Final = ProduceParts(self.shared, partitions=partitions, coordinators=_NOTHING)
        self.fetch: Final = FetchParts(
            self.shared,
            partitions=partitions,
            settings=settings,
            clock=clock,
            purgatory=purgatory,
            fetch_sessions=FetchSessionCache(
                slots=100, now=clock.monotonic_seconds, random_id=lambda: rng.randint(1, 2**31 - 1)
            ),
        )
        self.partitions: Final = PartitionParts(
            self.shared, partitions=partitions, log_manager=log_manager, log_moves=_NOTHING, blocking=blocking
        )


class ReplicaNode:
    """One broker's life, from a start to a stop or a crash."""

    def __init__(self, cluster: ReplicaCluster, broker_id: int, disk: SimulatedDisk, epoch: int) -> None:
        self.cluster = cluster
        self.id = broker_id
        self.disk = disk
        self.epoch = epoch
        self.is_live = False
        self.settings = Settings({"node.id": str(broker_id), **SETTINGS, **cluster.entries})
        self.images = ImageHolder()
        self.clock = LoopClock()
        self.blocking = BlockingWork(threads_max=1)
        self.flusher = Flusher(threads=self.blocking, clock=self.clock)
        self.log_manager = LogManager(
            self.settings.log_directories, disk=disk, clock=self.clock, broker_id=broker_id
        )
        self.partitions = HostedPartitions(
            broker_id=broker_id,
            images=self.images,
            log_manager=self.log_manager,
            flusher=self.flusher,
            current_settings=lambda: self.settings,
            clock=self.clock,
        )
        self.housekeeping = Housekeeping(
            partitions=self.partitions,
            log_manager=self.log_manager,
            blocking=self.blocking,
            flusher=self.flusher,
            clock=self.clock,
            current_settings=lambda: self.settings,
        )
        self.purgatory = Purgatory(waiting_max=1000)
        self.parts = _ReplicaParts(
            partitions=self.partitions,
            log_manager=self.log_manager,
            settings=self.settings,
            clock=self.clock,
            images=self.images,
            purgatory=self.purgatory,
            rng=cluster.rng,
            blocking=self.blocking,
        )
        self.dispatcher = Dispatcher(self.parts)
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self.fetchers = ReplicaFetcherManager(
            self.partitions, transport_of=lambda _: self, current_settings=lambda: self.settings
        )
        self.in_sync = InSyncSets(self.partitions, alter_partition=self._alter_partition)
        self.connection = Connection(id=1, listener_name="PLAINTEXT", peer=("client.test", 5000))

    def start(self, image: ClusterImage) -> bool:
        """Open the logs and follow; whether the stop before was clean."""
        self.log_manager.directories.open()
        load(self.log_manager, self.partitions.configs_on_disk())
        was_clean = all(not self.log_manager.may_have_lost(log) for log in self.log_manager.logs())
        self.images.current = image
        self.fetchers.start()
        self.in_sync.start()
        self.partitions.start()
        self.housekeeping.start()
        self.is_live = True
        return was_clean

    async def stop(self) -> None:
        """In order."""
        self.is_live = False
        await self._end_tasks()
        self.log_manager.close()

    async def die(self) -> None:
        """The process ends where it is; what its disk then has is the caller's."""
        self.is_live = False
        self.disk.generation += 1
        await self._end_tasks()

    async def _end_tasks(self) -> None:
        await self.fetchers.stop()
        await self.in_sync.stop()
        try:
            await self.housekeeping.stop()
        except OSError:
            assert not self.is_live
        self.partitions.stop()
        self.purgatory.release_all()
        self.blocking.close()

    def partition(self, index: int = 0) -> Partition:
        return self.partitions.get("t", index)

    def values(self, index: int = 0) -> dict[int, bytes]:
        """Every record in the log, by offset."""
        log = self.partition(index).log
        return {record.offset: record.value or b"" for record in stored_records(log)}

    # --- the wire ----------------------------------------------------------------------------------------------------

    async def ask(self, api: ApiKey, version: int, /, **fields: Any) -> Any:
        """What a client is answered."""
        check_field_names()
        return await self.answer(api, version, messages.request(api, version, **fields))

    async def answer(self, api: ApiKey, version: int, message: Any) -> Any:
        frame = codec.encode_request(api, version, 7, "test", message)
        answer = self.dispatcher(self.connection, memoryview(bytearray(frame))[4:])
        if inspect.isawaitable(answer):
            answer = await answer
        return decoded(api, version, answer)

    async def send(self, broker_id: int, request: BrokerRequest[Response]) -> Response:
        """As a transport: the request goes through its bytes, and tests see and change messages."""
        frame = memoryview(request.pack(7, "broker"))[4:]
        header = parse_request_header(frame)
        api, version = ApiKey(header.api_key), header.api_version
        message = codec.decode_request(api, version, frame, header.body_position)
        asked = self._asked[broker_id] = asyncio.ensure_future(
            self.cluster.carry(self, broker_id, api, version, message)
        )
        try:
            await asyncio.wait({asked})
        finally:
            asked.cancel()
        if asked.cancelled():
            raise ConnectionResetError("the question was given up")
        return request.parse(memoryview(codec.encode_response(api, version, 7, asked.result()))[4:])

    def interrupt(self, broker_id: int) -> None:
        """As if the connection were lost."""
        self._asked[broker_id].cancel()

    async def _alter_partition(
        self, proposals: Sequence[Proposal]
    ) -> Sequence[PartitionImage | RequestError]:
        return await self.cluster.alter_partition(self, proposals)


class ReplicaCluster:
    """The brokers, numbered from 1, with one topic `t`: a context manager, and `start` for a story."""

    def __init__(self, *, brokers: int = 3, seed: int = 1, **entries: str) -> None:
        self.rng = random.Random(seed)
        self.entries = {key.replace("_", "."): value for key, value in entries.items()}
        self.broker_ids = range(1, brokers + 1)
        self.nodes: dict[int, ReplicaNode] = {}
        self.disks = {broker_id: SimulatedDisk() for broker_id in self.broker_ids}
        self.delay_seconds = (0.001, 0.005)
        self.image_delay_seconds = (0.001, 0.02)
        self.states: list[PartitionImage] = []
        self.topic_config: dict[str, str] = {}
        self.live: dict[int, BrokerImage] = {}
        self.stopping: set[int] = set()
        self.is_controller_reachable = True
        self.proposals: list[tuple[int, Proposal]] = []
        self._disconnected: set[frozenset[int]] = set()
        self._next_epoch = 100
        self._image = ClusterImage()
        self._delivered_at: dict[int, float] = {}

    @classmethod
    async def start(
        cls,
        *,
        brokers: int = 3,
        seed: int = 1,
        replicas: tuple[int, ...] = (),
        partitions: int = 1,
        **entries: str,
    ) -> ReplicaCluster:
        """One that stops when the story has passed; with `replicas` it has the topic."""
        cluster = await cls(brokers=brokers, seed=seed, **entries).__aenter__()
        stop_at_end(cluster.__aexit__)
        if replicas:
            await cluster.create_topic(partitions=partitions, replicas=replicas)
        return cluster

    async def __aenter__(self) -> ReplicaCluster:
        for broker_id in self.broker_ids:
            self.start_node(broker_id)
        return self

    async def __aexit__(self, *_: object) -> None:
        for node in list(self.nodes.values()):
            if node.is_live:
                await node.stop()

    # --- brokers -----------------------------------------------------------------------------------------------------

    def start_node(self, broker_id: int) -> ReplicaNode:
        """Start a broker on its disk and register it."""
        self._next_epoch += 1
        epoch = self._next_epoch
        node = self.nodes[broker_id] = ReplicaNode(self, broker_id, self.disks[broker_id], epoch)
        was_clean = node.start(self._image)
        self.live[broker_id] = BrokerImage(
            id=broker_id,
            endpoints={"PLAINTEXT": (f"broker-{broker_id}.test", 9092)},
            rack=f"rack-{broker_id}",
            epoch=epoch,
            stopped_cleanly=was_clean,
        )
        live = self._eligible()

        def rejoined(state: PartitionImage) -> PartitionImage | None:
            after = None if was_clean else leader_election.after_unclean_stop(state, broker_id, live=live)
            return leader_election.elect_leader(after or state, live=live) or after

        self._change(rejoined)
        return node

    def _eligible(self) -> Collection[int]:
        return self.live.keys() - self.stopping

    def _gone(self, broker_id: int) -> None:
        self.live.pop(broker_id, None)
        self._change(lambda state: leader_election.without_brokers(state, [broker_id], live=self._eligible()))

    async def stop_node(self, broker_id: int) -> None:
        """A controlled stop: leaders move first."""
        self.stopping.add(broker_id)
        self._change(lambda state: leader_election.before_shutdown(state, broker_id, live=self._eligible()))
        await asyncio.sleep(0.1)
        await self.nodes[broker_id].stop()
        self.stopping.discard(broker_id)
        self._gone(broker_id)

    async def kill_node(self, broker_id: int, *, power_loss: bool = False) -> None:
        """The process dies; with `power_loss` what was not synced is gone."""
        await self.nodes[broker_id].die()
        if power_loss:
            self.disks[broker_id].crash()
        else:
            self.disks[broker_id].kill()
        self._gone(broker_id)

    def disconnect(self, one: int, other: int) -> None:
        """Nothing passes between two brokers."""
        self._disconnected.add(frozenset((one, other)))

    def heal(self) -> None:
        self._disconnected.clear()
        self.is_controller_reachable = True

    async def carry(
        self, sender: ReplicaNode, receiver_id: int, api: ApiKey, version: int, message: Any
    ) -> Any:
        """A request from one broker to another, and its answer."""
        await asyncio.sleep(self.rng.uniform(*self.delay_seconds))
        receiver = self.nodes[receiver_id]
        self._check_way(sender, receiver)
        answer = await receiver.answer(api, version, message)
        await asyncio.sleep(self.rng.uniform(*self.delay_seconds))
        self._check_way(sender, receiver)
        return answer

    def _check_way(self, sender: ReplicaNode, receiver: ReplicaNode) -> None:
        if not receiver.is_live or frozenset((sender.id, receiver.id)) in self._disconnected:
            raise ConnectionResetError(f"broker {receiver.id} is not reached")

    # --- the controller ----------------------------------------------------------------------------------------------

    async def create_topic(self, *, partitions: int = 1, replicas: tuple[int, ...], **config: str) -> None:
        """The topic `t`, each of its partitions led by the first of `replicas`; ready when this returns."""
        self.topic_config = {key.replace("_", "."): value for key, value in config.items()}
        self.states = [
            PartitionImage(index, replicas[0], 0, replicas, replicas, 0) for index in range(partitions)
        ]
        self._publish()
        await asyncio.sleep(0.2)

    def elect(self, leader: int, index: int = 0, *, isr: tuple[int, ...] | None = None) -> None:
        """Let `leader` lead, clean or not."""
        state = self.states[index]
        self._set(state._replace(leader=leader, leader_epoch=state.leader_epoch + 1, isr=isr or state.isr))
        self._publish()

    def reassign(self, *replicas: int, index: int = 0) -> None:
        """Begin to move to these replicas."""
        live = self._eligible()
        state = reassignment_steps.begin_move(self.states[index], replicas, live=live, min_in_sync=1)
        assert state is not None
        self._set(state)
        self._publish()

    def set_isr(self, *isr: int, index: int = 0) -> None:
        """The controller's own change of an in-sync set."""
        self._set(self.states[index]._replace(isr=isr))
        self._publish()

    def _set(self, state: PartitionImage) -> None:
        self.states[state.partition] = state._replace(partition_epoch=state.partition_epoch + 1)

    def _change(self, rule: Callable[[PartitionImage], PartitionImage | None]) -> None:
        for state in list(self.states):
            after = rule(state)
            if after is not None and after != state:
                self._set(after)
        self._publish()

    async def alter_partition(
        self, node: ReplicaNode, proposals: Sequence[Proposal]
    ) -> list[PartitionImage | RequestError]:
        """As the controller answers AlterPartition."""
        await asyncio.sleep(self.rng.uniform(*self.delay_seconds))
        if not self.is_controller_reachable or not node.is_live:
            raise ConnectionResetError("the controller is not reached")
        outcomes: list[PartitionImage | RequestError] = []
        for proposal in proposals:
            self.proposals.append((node.id, proposal))
            outcomes.append(self._altered(node, proposal))
        self._publish()
        await asyncio.sleep(self.rng.uniform(*self.delay_seconds))
        if not self.is_controller_reachable:
            raise ConnectionResetError("the controller's answer is lost")
        return outcomes

    def _altered(self, node: ReplicaNode, proposal: Proposal) -> PartitionImage | RequestError:
        state = self.states[proposal.topic_partition.partition]
        try:
            after = leader_election.alter_partition(
                proposal.topic_partition,
                state,
                by=node.id,
                leader_epoch=proposal.leader_epoch,
                partition_epoch=proposal.partition_epoch,
                isr=proposal.isr,
                eligible=self._eligible(),
            )
        except RequestError as error:
            return error
        if after is not None:
            self._set(reassignment_steps.complete_move(after, live=self._eligible()) or after)
        return self.states[state.partition]

    def _publish(self) -> None:
        """Notify every live broker, each at its own time and in order."""
        topics = {}
        if self.states:
            topics["t"] = TopicImage("t", TOPIC_ID, tuple(self.states), is_internal=False)
        self._image = image = ClusterImage(
            cluster_id="simulated",
            brokers=dict(self.live),
            topics=topics,
            topics_by_id={topic.id: topic for topic in topics.values()},
            configs={(ResourceKind.TOPIC, "t"): self.topic_config} if self.topic_config else {},
        )
        loop = asyncio.get_running_loop()
        for node in self.nodes.values():
            at = loop.time() + self.rng.uniform(*self.image_delay_seconds)
            at = self._delivered_at[node.id] = max(at, self._delivered_at.get(node.id, 0.0) + 1e-6)
            loop.call_at(at, self._deliver, node, image)

    def _deliver(self, node: ReplicaNode, image: ClusterImage) -> None:
        if node.is_live:
            node.images.replace(image)

    # --- clients -----------------------------------------------------------------------------------------------------

    async def produce(
        self,
        broker_id: int,
        *values: bytes,
        index: int = 0,
        acks: int = -1,
        timeout_ms: int = 30_000,
        **more: Any,
    ) -> Any:
        """One batch sent to one broker; the partition's answer. Raises ConnectionError when the broker dies."""
        node = self.nodes[broker_id]
        if not node.is_live:
            raise ConnectionRefusedError(f"broker {broker_id} is down")
        answer = await node.ask(
            ApiKey.PRODUCE,
            9,
            acks=acks,
            timeout=timeout_ms,
            topic_data=[
                {"name": "t", "partition_data": [{"index": index, "records": batch(values, **more)}]}
            ],
        )
        if not node.is_live:
            raise ConnectionResetError(f"broker {broker_id} died")
        return answer.responses[0].partition_responses[0]

    def leader(self, index: int = 0) -> ReplicaNode:
        """The node of the leader, as the controller has it."""
        return self.nodes[self.states[index].leader]

    async def until(self, condition: Callable[[], bool], *, seconds: float = 60.0) -> None:
        """Let time pass until it holds."""
        await eventually("the replicas are so", condition, seconds_max=seconds, pause_seconds=0.01)
