"""Asks the share coordinators for states: the leaders of share-partitions, and the group coordinator, do (KIP-932).

A coordinator that is this broker is asked without a request. Writes for another one go together, one request of each
group at a time. An answer that says "not here" or "not yet" is followed by another attempt for a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar
from uuid import UUID

from odradek.broker.replication.broker_transport import BrokerTransport, MessageRequest
from odradek.broker.share_states.states import (
    PartitionsByTopic,
    ShareKey,
    ShareState,
    StartOffsets,
    StateChange,
    StateErrors,
    StateRange,
    StateSummary,
)
from odradek.foundation.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    FrameError,
    NotCoordinator,
    OdradekError,
    RequestTimedOut,
)
from odradek.foundation.limits import SHARE_STATE_SECONDS_MAX, SHARE_STATES_AT_ONCE_MAX
from odradek.foundation.named_tuple import NamedTuple
from odradek.metadata.image.image import ImageHolder
from odradek.metadata.image.topic_names import SHARE_GROUP_STATE
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.errors import NONE, error_name, error_of
from odradek.wire.protocol.group_partitions import partition_of
from odradek.wire.protocol.messages import request

if TYPE_CHECKING:
    from odradek.broker.share_states.coordinator import ShareCoordinator
    from odradek.wire.protocol.messages import AnyMessage
    from odradek.wire.protocol.responses.shares import (
        DeleteShareGroupStateResponse,
        InitializeShareGroupStateResponse,
        ReadShareGroupStateResponse,
        ReadShareGroupStateSummaryResponse,
        WriteShareGroupStateResponse,
    )

T = TypeVar("T")

WRITE_VERSION: Final = 1
SUMMARY_VERSION: Final = 1
RETRY_SECONDS_MIN: Final = 0.02
RETRY_SECONDS_MAX: Final = 1.0
_TO_RETRY: Final = (NotCoordinator, CoordinatorLoadInProgress, CoordinatorNotAvailable, RequestTimedOut)


class _Write(NamedTuple):
    """A change that waits for its request."""

    key: ShareKey
    change: StateChange
    done: asyncio.Future[OdradekError | None]


class ShareStateClient:
    """A `ShareStates` and a `ShareStateRequests`.

    `transport` carries requests to other brokers, `local` gives the coordinator of this one, and `ensure_topic` creates
    the topic of states where there is none.
    """

    def __init__(
        self,
        transport: BrokerTransport,
        images: ImageHolder,
        *,
        broker_id: int,
        local: Callable[[], ShareCoordinator],
        ensure_topic: Callable[[], Awaitable[object]],
    ) -> None:
        self._transport = transport
        self._images = images
        self._broker_id = broker_id
        self._local = local
        self._ensure_topic = ensure_topic
        # Of each broker and group: the writes that wait while a request is under way.
        self._queues: dict[tuple[int, str], list[_Write]] = {}
        self._sending: set[asyncio.Task[None]] = set()
        self.requests = 0

    async def stop(self) -> None:
        """End the requests under way."""
        for task in list(self._sending):
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)

    # --- one state ------------------------------------------------------------------------------------------

    async def read(self, key: ShareKey, *, leader_epoch: int) -> ShareState:
        """Raises FencedLeaderEpoch, InvalidRequest, UnknownTopicOrPartition, CoordinatorNotAvailable."""

        async def ask(broker_id: int) -> ShareState:
            if broker_id == self._broker_id:
                return await self._local().read(key, leader_epoch=leader_epoch)
            return await self._read_remote(broker_id, key, leader_epoch)

        return await self._with_retries(key, ask)

    async def write(self, key: ShareKey, change: StateChange) -> None:
        """Raises as `read`, and FencedStateEpoch."""

        async def ask(broker_id: int) -> None:
            if broker_id == self._broker_id:
                outcome = self._local().write(key, change)
                error = await outcome if isinstance(outcome, Awaitable) else outcome
            else:
                error = await self._queue(broker_id, key, change)
            if error is not None:
                raise error

        await self._with_retries(key, ask)

    async def _initialize_one(self, key: ShareKey, start_offset: int, state_epoch: int) -> None:
        async def ask(broker_id: int) -> None:
            if broker_id == self._broker_id:
                outcome = self._local().initialize(key, state_epoch=state_epoch, start_offset=start_offset)
                error = await outcome if isinstance(outcome, Awaitable) else outcome
                if error is not None:
                    raise error
                return
            answer: InitializeShareGroupStateResponse = await self._send(
                broker_id,
                ApiKey.INITIALIZE_SHARE_GROUP_STATE,
                0,
                key,
                {"state_epoch": state_epoch, "start_offset": start_offset},
            )
            _raise_error(answer.results[0].partitions[0].error_code, key)

        await self._with_retries(key, ask)

    async def _delete_one(self, key: ShareKey) -> None:
        async def ask(broker_id: int) -> None:
            if broker_id == self._broker_id:
                outcome = self._local().delete(key)
                error = await outcome if isinstance(outcome, Awaitable) else outcome
                if error is not None:
                    raise error
                return
            answer: DeleteShareGroupStateResponse = await self._send(
                broker_id, ApiKey.DELETE_SHARE_GROUP_STATE, 0, key, {}
            )
            _raise_error(answer.results[0].partitions[0].error_code, key)

        await self._with_retries(key, ask)

    async def _summarize_one(self, key: ShareKey) -> StateSummary:
        async def ask(broker_id: int) -> StateSummary:
            if broker_id == self._broker_id:
                return self._local().summarize(key)
            answer: ReadShareGroupStateSummaryResponse = await self._send(
                broker_id, ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, SUMMARY_VERSION, key, {"leader_epoch": -1}
            )
            found = answer.results[0].partitions[0]
            _raise_error(found.error_code, key)
            return StateSummary(
                found.state_epoch, found.leader_epoch, found.start_offset, found.delivery_complete_count
            )

        return await self._with_retries(key, ask)

    # --- states of a group ----------------------------------------------------------------------------------

    async def initialize(self, group_id: str, starts: StartOffsets, *, state_epoch: int) -> StateErrors:
        return await self._ask_all(
            group_id,
            starts,
            lambda key: self._initialize_one(key, starts[key.topic_id][key.partition], state_epoch),
        )

    async def delete(self, group_id: str, partitions: PartitionsByTopic) -> StateErrors:
        return await self._ask_all(group_id, partitions, self._delete_one)

    async def summarize(
        self, group_id: str, partitions: PartitionsByTopic
    ) -> Mapping[tuple[UUID, int], StateSummary | OdradekError]:
        found: dict[tuple[UUID, int], StateSummary | OdradekError] = {}

        async def ask(key: ShareKey) -> None:
            found[key.topic_id, key.partition] = await self._summarize_one(key)

        errors = await self._ask_all(group_id, partitions, ask)
        return {**found, **errors}

    async def _ask_all(
        self, group_id: str, partitions: PartitionsByTopic, ask: Callable[[ShareKey], Awaitable[None]]
    ) -> StateErrors:
        """Ask for each partition, some at a time; the errors."""
        keys = iter(
            [
                ShareKey(group_id, topic_id, number)
                for topic_id, numbers in partitions.items()
                for number in numbers
            ]
        )
        errors: dict[tuple[UUID, int], OdradekError] = {}

        async def work() -> None:
            for key in keys:
                try:
                    await ask(key)
                except OdradekError as error:
                    errors[key.topic_id, key.partition] = error

        async with asyncio.TaskGroup() as group:
            for _ in range(SHARE_STATES_AT_ONCE_MAX):
                group.create_task(work())
        return errors

    # --- coordinators ---------------------------------------------------------------------------------------

    async def _with_retries(self, key: ShareKey, ask: Callable[[int], Awaitable[T]]) -> T:
        loop = asyncio.get_running_loop()
        end = loop.time() + SHARE_STATE_SECONDS_MAX
        pause_seconds = RETRY_SECONDS_MIN
        while True:
            try:
                return await ask(await self._find_coordinator(key))
            except _TO_RETRY as error:
                failure: OdradekError = error
            except (FrameError, OSError) as error:
                failure = CoordinatorNotAvailable(f"the coordinator of {key} has not answered: {error}")
            if loop.time() + pause_seconds > end:
                raise failure
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, RETRY_SECONDS_MAX)

    async def _find_coordinator(self, key: ShareKey) -> int:
        """The broker that coordinates the state. Raises CoordinatorNotAvailable, and what the controller raises."""
        if SHARE_GROUP_STATE not in self._images.current.topics:
            await self._ensure_topic()
        image = self._images.current
        topic = image.topics.get(SHARE_GROUP_STATE)
        if topic is None:
            raise CoordinatorNotAvailable(f"the topic {SHARE_GROUP_STATE} is being created; try again")
        leader = topic.partitions[partition_of(key.coordinator_key, len(topic.partitions))].leader
        if leader not in image.brokers:
            raise CoordinatorNotAvailable(f"no broker coordinates the state of {key} now; try again")
        return leader

    # --- requests -------------------------------------------------------------------------------------------

    async def _send(
        self, broker_id: int, api: ApiKey, version: int, key: ShareKey, fields: Mapping[str, object]
    ) -> AnyMessage:
        topics = [{"topic_id": key.topic_id, "partitions": [{"partition": key.partition, **fields}]}]
        return await self._exchange(broker_id, api, version, key.group_id, topics)

    async def _exchange(
        self,
        broker_id: int,
        api: ApiKey,
        version: int,
        group_id: str,
        topics: Collection[Mapping[str, object]],
    ) -> AnyMessage:
        """What another broker answers. Raises CoordinatorNotAvailable where it does not: it may have left since it was
        found, and another attempt finds its successor.
        """
        self.requests += 1
        message = request(api, version, group_id=group_id, topics=topics)
        try:
            return await self._transport.send(broker_id, MessageRequest(api, version, message))
        except (OdradekError, FrameError, OSError) as error:
            raise CoordinatorNotAvailable(f"broker {broker_id} has not answered: {error}") from error

    async def _read_remote(self, broker_id: int, key: ShareKey, leader_epoch: int) -> ShareState:
        answer: ReadShareGroupStateResponse = await self._send(
            broker_id, ApiKey.READ_SHARE_GROUP_STATE, 0, key, {"leader_epoch": leader_epoch}
        )
        found = answer.results[0].partitions[0]
        _raise_error(found.error_code, key)
        batches = tuple(
            StateRange(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count)
            for one in found.state_batches
        )
        return ShareState(found.state_epoch, found.start_offset, batches, leader_epoch)

    def _queue(
        self, broker_id: int, key: ShareKey, change: StateChange
    ) -> asyncio.Future[OdradekError | None]:
        loop = asyncio.get_running_loop()
        write = _Write(key, change, loop.create_future())
        place = broker_id, key.group_id
        queue = self._queues.get(place)
        if queue is not None:
            queue.append(write)
            return write.done
        self._queues[place] = [write]
        task = loop.create_task(self._drain(place), name=f"share-states-to-{broker_id}")
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)
        return write.done

    async def _drain(self, place: tuple[int, str]) -> None:
        """Send what waits until nothing does."""
        batch: list[_Write] = []
        error: OdradekError = CoordinatorNotAvailable("the broker is stopping; ask again")
        try:
            while batch := _take_distinct(self._queues[place]):
                await self._write_remote(place[0], batch)
        except Exception as failure:
            error = CoordinatorNotAvailable(f"states could not be written: {failure!r}")
            raise
        finally:
            for write in (*batch, *self._queues.pop(place)):
                if not write.done.done():
                    write.done.set_result(error)

    async def _write_remote(self, broker_id: int, batch: list[_Write]) -> None:
        api, rows = ApiKey.WRITE_SHARE_GROUP_STATE, list(_write_rows(batch))
        try:
            answer: WriteShareGroupStateResponse = await self._exchange(
                broker_id, api, WRITE_VERSION, batch[0].key.group_id, rows
            )
        except CoordinatorNotAvailable as failure:
            for write in batch:
                write.done.set_result(failure)
            return
        codes = {
            (topic.topic_id, one.partition): int(one.error_code)
            for topic in answer.results
            for one in topic.partitions
        }
        for write in batch:
            code = codes.get((write.key.topic_id, write.key.partition))
            if not write.done.done():
                write.done.set_result(_error(code, write.key))


def _take_distinct(queue: list[_Write]) -> list[_Write]:
    """The writes that wait, taken out of the queue; a second one of a state stays for the next request."""
    taken: dict[ShareKey, _Write] = {}
    left = []
    for write in queue:
        if write.key in taken:
            left.append(write)
        else:
            taken[write.key] = write
    queue[:] = left
    return list(taken.values())


def _write_rows(batch: Iterable[_Write]) -> Iterable[Mapping[str, object]]:
    topics: dict[UUID, list[Mapping[str, object]]] = {}
    for key, change, _ in batch:
        topics.setdefault(key.topic_id, []).append(
            {
                "partition": key.partition,
                "state_epoch": change.state_epoch,
                "leader_epoch": change.leader_epoch,
                "start_offset": change.start_offset,
                "delivery_complete_count": change.delivery_complete_count,
                "state_batches": [one._asdict() for one in change.batches],
            }
        )
    return ({"topic_id": topic_id, "partitions": rows} for topic_id, rows in topics.items())


def _error(code: int | None, key: ShareKey) -> OdradekError | None:
    if code == NONE:
        return None
    if code is None:
        return CoordinatorNotAvailable(f"the coordinator has not answered for {key}")
    return error_of(code, f"the share coordinator answered {error_name(code)} for {key}")


def _raise_error(code: int, key: ShareKey) -> None:
    error = _error(int(code), key)
    if error is not None:
        raise error
