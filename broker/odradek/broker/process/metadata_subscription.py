"""A broker follows the active controller: a long poll returns changes, which become the next image.

The broker reports what it has applied, and receives the changes after that. After a change of controller, or after a
long absence, it receives everything. A broker's image changes in no other way. Partition states are never read from
the registry, which would be a second source with its own order. The broker ignores a controller of an older term.

A broker is *fenced* until it is registered, and while its session with the registry is lost. Its image then shows it
neither as a member nor as a leader. A crash may have lost records that it led, so followers must not fetch from it.
The controller publishes a registration only when everything that follows from it is written. From then on the image
is also right about this broker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from odradek.broker.process.controller_channel import ControllerChannel
from odradek.broker.replication.blocking import BlockingWork
from odradek.foundation.errors import NotController
from odradek.foundation.limits import CONTROLLER_WAIT_MS_MAX
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.registry_errors import StoreError
from odradek.foundation.security_errors import ClusterAuthorizationFailed
from odradek.foundation.tasks import TaskOwner
from odradek.foundation.turn_limits import CLUSTER_CHANGES_BYTES_READ_AT_ONCE_MAX
from odradek.metadata.image.change_log import NodeChange
from odradek.metadata.image.image import NO_LEADER, ClusterImage, ImageHolder, TopicImage
from odradek.metadata.image.image_building import apply_in_turns
from odradek.network.outbound import OutboundConnection
from odradek.wire.protocol.cluster_changes import FollowRequest, FollowResponse, pack_request, parse_response
from odradek.wire.protocol.errors import error_code

logger = logging.getLogger(__name__)

# When a connection counts as lost whose answer is late by so much.
_LATE_MS_MAX: Final = 3_000
# A shorter interval would keep the controller busy with nothing else.
_POLL_MS_MIN: Final = 100
_NOTHING_YET: Final = -1
_DENIED: Final = error_code(ClusterAuthorizationFailed())


class _Received(NamedTuple):
    """An answer of the controller, and its changes as the image takes them."""

    response: FollowResponse
    changes: list[NodeChange]


def _read(frame: memoryview) -> _Received:
    response = parse_response(frame)
    changes = [NodeChange(*node) for node in response.nodes]
    return _Received(response._replace(nodes=()), changes)


class MetadataSubscription:
    """Updates `images` from the controller. `epoch` returns the broker's epoch, -1 while it has none."""

    def __init__(
        self,
        channel: ControllerChannel,
        images: ImageHolder,
        *,
        broker_id: int,
        epoch: Callable[[], int],
        heartbeat_ms: int,
        long_work: BlockingWork,
        on_failure: Callable[[str], None] = lambda reason: None,
    ) -> None:
        """`heartbeat_ms` is how long the controller may delay a poll without changes. `on_failure` is called when the
        poll ends with an error: the image is stale from then on.
        """
        self._channel = channel
        self._images = images
        self._broker_id = broker_id
        self._epoch = epoch
        self._heartbeat_ms = heartbeat_ms
        self._long_work = long_work
        self._tasks = TaskOwner(
            "following", on_failure=lambda name, error: on_failure(f"{name} failed: {error}")
        )
        self._image = images.current
        self._is_fenced = True
        self._progress = asyncio.Event()
        self.controller_epoch = _NOTHING_YET
        self.number = 0
        """All changes below it, of the term `controller_epoch`, are applied."""
        self.changes = 0

    def start(self) -> None:
        self._tasks.start(self._run(), name="poll")

    async def stop(self) -> None:
        await self._tasks.close()

    # --- waiting --------------------------------------------------------------------------------------------------

    async def wait_until(self, is_so: Callable[[ClusterImage], bool]) -> None:
        """Wait until `is_so` is true of the controller's image, also while this broker is fenced."""
        while not is_so(self._image):
            self._progress.clear()
            await self._progress.wait()

    async def wait_until_applied(self, controller_epoch: int, number: int, *, wait_ms_max: int) -> bool:
        """Wait until all changes below `number` of that term, or those of a later term, are applied.

        False after `wait_ms_max`.
        """
        wanted = (controller_epoch, number)
        try:
            async with asyncio.timeout(wait_ms_max / 1000):
                while (self.controller_epoch, self.number) < wanted:
                    self._progress.clear()
                    await self._progress.wait()
        except TimeoutError:
            return False
        return True

    # --- fencing -------------------------------------------------------------------------------------------------

    def fence(self) -> None:
        """Fence this broker, which may no longer be a member: the image does not show it as one until `unfence`."""
        self._is_fenced = True
        self._publish()

    def unfence(self) -> None:
        """Show the controller's image unchanged: the controller has read this broker's registration."""
        self._is_fenced = False
        self._publish()

    def _publish(self) -> None:
        image = _without_broker(self._image, self._broker_id) if self._is_fenced else self._image
        if not image.is_same_as(self._images.current):
            self._images.replace(image)

    # --- the poll ------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            try:
                received = await self._channel.ask(
                    self._poll, is_refused=self._is_refused, wait_ms_max=CONTROLLER_WAIT_MS_MAX
                )
                await self._apply(received)
            except NotController as error:
                logger.warning("broker %d uses its last image: %s", self._broker_id, error)
            except StoreError as error:
                # A retry would fail again: the next snapshot may be correct.
                logger.error("broker %d cannot read the controller's changes: %s", self._broker_id, error)
                self.controller_epoch = _NOTHING_YET
                await asyncio.sleep(1)

    async def _poll(self, connection: OutboundConnection) -> _Received:
        poll_ms = max(self._heartbeat_ms, _POLL_MS_MIN)

        def pack(correlation_id: int) -> bytes:
            return pack_request(
                FollowRequest(
                    correlation_id,
                    f"broker-{self._broker_id}",
                    self._broker_id,
                    self._epoch(),
                    self.controller_epoch,
                    self.number,
                    poll_ms,
                )
            )

        frame = await connection.send_frame(pack, timeout_ms=poll_ms + _LATE_MS_MAX)
        if len(frame) > CLUSTER_CHANGES_BYTES_READ_AT_ONCE_MAX:
            received = await self._long_work.submit(lambda: _read(frame))
        else:
            received = _read(frame)
        if received.response.error_code == _DENIED:
            raise PermissionError(
                "the controller refuses this broker: its principal must be a super user, or have ClusterAction on the "
                "cluster"
            )
        return received

    def _is_refused(self, received: _Received) -> bool:
        response = received.response
        if response.error_code != 0 or response.controller_epoch < self.controller_epoch:
            return True
        return not response.is_snapshot and response.controller_epoch != self.controller_epoch

    async def _apply(self, received: _Received) -> None:
        response, changes = received
        base = ClusterImage() if response.is_snapshot else self._image
        image = await apply_in_turns(base, changes)
        await self._images.prepare(image)
        self._image = image
        self.controller_epoch, self.number = response.controller_epoch, response.next_number
        self.changes += len(changes)
        if response.is_snapshot:
            logger.info(
                "broker %d received a snapshot of %d nodes: term %d, change %d",
                self._broker_id,
                len(changes),
                self.controller_epoch,
                self.number,
            )
        self._publish()
        await self._images.complete()
        self._progress.set()


def _without_broker(image: ClusterImage, broker_id: int) -> ClusterImage:
    """The image without the broker among the members and leaders."""
    topics: dict[str, TopicImage] = {}
    for name, topic in image.topics.items():
        if any(one.leader == broker_id for one in topic.partitions):
            topic = topic._replace(
                partitions=tuple(
                    one._replace(leader=NO_LEADER) if one.leader == broker_id else one
                    for one in topic.partitions
                )
            )
        topics[name] = topic
    return replace(
        image,
        brokers={number: one for number, one in image.brokers.items() if number != broker_id},
        topics=topics,
        topics_by_id={topic.id: topic for topic in topics.values()},
    )
