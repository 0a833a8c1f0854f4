"""The coordinators of one broker: of groups, of transactions, and of states of share-partitions.

Each has an internal topic, and starts when the topic exists or at its first use. To import the modules of one takes a
seventh of the time to start a broker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.broker.process import late
from odradek.broker.replication.blocking import BlockingWork
from odradek.broker.replication.hosted_partitions import HostedPartitions
from odradek.broker.replication.inter_broker_client import InterBrokerClient, PeerTransport
from odradek.broker.replication.producer_ids import ProducerIds
from odradek.foundation.clock import Clock
from odradek.foundation.limits import TRANSACTION_WRITE_MS_MAX
from odradek.foundation.settings.broker_settings import Settings
from odradek.metadata.image.features import TRANSACTION_VERSION
from odradek.metadata.image.image import ClusterImage, ImageHolder
from odradek.metadata.image.topic_names import SHARE_GROUP_STATE, TRANSACTION_STATE
from odradek.network.connection import Dispatch
from odradek.network.network import Network
from odradek.wire.protocol.group_partitions import OFFSETS_TOPIC

if TYPE_CHECKING:
    from odradek.broker.coordination.internal_topic import ReplicatedTopicLog
    from odradek.broker.groups.context import InThread
    from odradek.broker.groups.coordinator import GroupCoordinator
    from odradek.broker.groups.share.offsets import ShareOffsets
    from odradek.broker.groups.zookeeper_groups import ZookeeperGroups
    from odradek.broker.replication.transaction_verifier import TransactionVerifier
    from odradek.broker.share_states.client import ShareStateClient
    from odradek.broker.share_states.coordinator import ShareCoordinator
    from odradek.broker.shares.dead_letter_writer import DeadLetterWriter
    from odradek.broker.shares.leader import ShareLeader
    from odradek.broker.transactions.coordinator import TransactionCoordinator
    from odradek.metadata.controller.api import ControllerApi
    from odradek.metadata.registry.store import Store


class Coordinators:
    """`dispatch` answers requests that this broker sends to itself; it is set once the broker listens."""

    def __init__(
        self,
        *,
        settings: Settings,
        current_settings: Callable[[], Settings],
        broker_id: int,
        clock: Clock,
        network: Network,
        images: ImageHolder,
        partitions: HostedPartitions,
        controller: ControllerApi,
        shared_registry: Store | None,
        in_thread: InThread,
        blocking: BlockingWork,
    ) -> None:
        """`in_thread` runs long work, `blocking` what may wait for a disk."""
        self._blocking = blocking
        self._settings = settings
        self._current_settings = current_settings
        self._broker_id = broker_id
        self._clock = clock
        self._network = network
        self._images = images
        self._partitions = partitions
        self._controller = controller
        self._shared_registry = shared_registry
        self._in_thread = in_thread
        self._zookeeper_groups: ZookeeperGroups | None = None
        # Each is None until it was used, or its topic exists.
        self.started_groups: GroupCoordinator | None = None
        self.started_transactions: TransactionCoordinator | None = None
        self.started_verifier: TransactionVerifier | None = None
        self.started_shares: ShareCoordinator | None = None
        self.started_share_states: ShareStateClient | None = None
        self.started_share_leader: ShareLeader | None = None
        self.started_dead_letters: DeadLetterWriter | None = None
        self._share_offsets: ShareOffsets | None = None
        self._transports: list[PeerTransport] = []
        self._unsubscribe: Callable[[], None] | None = None
        self.producer_ids = ProducerIds(controller.allocate_producer_ids)
        self.dispatch: Dispatch | None = None

    # --- life -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start each coordinator whose topic exists, now or later."""
        self._unsubscribe = self._images.subscribe(self._image_changed)
        self._image_changed(self._images.current, self._images.current)

    def _image_changed(self, _: ClusterImage, new: ClusterImage) -> None:
        if self.started_groups is None and OFFSETS_TOPIC in new.topics:
            self._make_groups()
        if self.started_transactions is None and TRANSACTION_STATE in new.topics:
            self._make_transactions()
        if self.started_shares is None and SHARE_GROUP_STATE in new.topics:
            self._make_shares()

    def refresh(self) -> None:
        """Load the partitions that this broker leads now, and forget the others."""
        for coordinator in (self.started_groups, self.started_transactions, self.started_shares):
            if coordinator is not None and coordinator.runtime.is_running:
                coordinator.runtime.refresh()

    def loading(self) -> str | None:
        """The name of a coordinator that is loading partitions; None where none is."""
        for name, coordinator in (
            ("group", self.started_groups),
            ("transaction", self.started_transactions),
            ("share", self.started_shares),
        ):
            if coordinator is not None and coordinator.runtime.is_loading:
                return name
        return None

    def resign(self) -> None:
        """Serve no more, and answer every request that waits."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        for coordinator in (self.started_groups, self.started_transactions, self.started_shares):
            if coordinator is not None:
                coordinator.runtime.resign()

    async def stop(self) -> None:
        """Resign, and end every task and connection."""
        self.resign()
        for coordinator in (self.started_transactions, self.started_groups, self.started_shares):
            if coordinator is not None:
                await coordinator.stop()
        if self.started_share_leader is not None:
            await self.started_share_leader.stop()
        if self.started_share_states is not None:
            await self.started_share_states.stop()
        if self.started_verifier is not None:
            await self.started_verifier.close()
        if self._zookeeper_groups is not None:
            await self._zookeeper_groups.stop()
        for transport in self._transports:
            await transport.close()
        await self.producer_ids.stop()

    # --- the coordinators -----------------------------------------------------------------------------------

    @property
    def groups(self) -> GroupCoordinator:
        """The group coordinator; the first use starts it."""
        return self.started_groups or self._make_groups()

    @property
    def transactions(self) -> TransactionCoordinator:
        """The transaction coordinator; the first use starts it."""
        return self.started_transactions or self._make_transactions()

    @property
    def verifier(self) -> TransactionVerifier:
        """Asks transaction coordinators whether partitions of this broker belong to transactions."""
        if self.started_verifier is None:
            self.started_verifier = late.TransactionVerifier(
                self.peer_transport("verification"), self._images, current_settings=self._current_settings
            )
        return self.started_verifier

    @property
    def shares(self) -> ShareCoordinator:
        """The coordinator of states of share-partitions; the first use starts it."""
        return self.started_shares or self._make_shares()

    @property
    def share_states(self) -> ShareStateClient:
        """Asks the coordinators of states of share-partitions, this broker's among them."""
        if self.started_share_states is None:
            self.started_share_states = late.ShareStateClient(
                self.peer_transport("share-states"),
                self._images,
                broker_id=self._broker_id,
                local=lambda: self.shares,
                ensure_topic=lambda: self._controller.ensure_topic(SHARE_GROUP_STATE),
            )
        return self.started_share_states

    @property
    def share_leader(self) -> ShareLeader:
        """Gives the records of the partitions that this broker leads to share groups."""
        if self.started_share_leader is None:
            self.started_share_leader = late.ShareLeader(
                partitions=self._partitions,
                images=self._images,
                states=self.share_states,
                clock=self._clock,
                blocking=self._blocking,
                settings=self._settings,
                current_settings=self._current_settings,
                dead_letters=self.dead_letters,
            )
        return self.started_share_leader

    @property
    def dead_letters(self) -> DeadLetterWriter:
        """Writes to the dead-letter topics of share groups."""
        if self.started_dead_letters is None:
            topics = late.DeadLetterTopics(
                self._images,
                create_topics=self._controller.create_internal_topics,
                current_settings=self._current_settings,
            )
            self.started_dead_letters = late.DeadLetterWriter(
                self.peer_transport("dead-letters"),
                topics,
                partitions=self._partitions,
                blocking=self._blocking,
                wall_ms=self._clock.wall_ms,
            )
        return self.started_dead_letters

    @property
    def share_offsets(self) -> ShareOffsets:
        """Where share groups stand, for administrators."""
        if self._share_offsets is None:
            ends = late.EndOffsetClient(self.peer_transport("end-offsets"), self._images)
            self._share_offsets = late.ShareOffsets(self.groups, ends.ask)
        return self._share_offsets

    @property
    def zookeeper_groups(self) -> ZookeeperGroups | None:
        """The groups that share partitions through the registry; None where consumers cannot reach it."""
        if self._zookeeper_groups is None and self._shared_registry is not None:
            self._zookeeper_groups = late.ZookeeperGroups(
                self._shared_registry, broker_id=self._broker_id, images=self._images, clock=self._clock
            )
        return self._zookeeper_groups

    def _make_groups(self) -> GroupCoordinator:
        settings = self._settings
        log = self._topic_log(
            OFFSETS_TOPIC,
            new_topic_partitions=settings.offsets_topic_num_partitions,
            commit_timeout_ms=settings.offsets_commit_timeout_ms,
        )
        self.started_groups = late.GroupCoordinator(
            log,
            clock=self._clock,
            settings=settings,
            images=self._images,
            in_thread=self._in_thread,
            create_topics=self._controller.create_internal_topics,
            new_share_states=lambda: self.share_states,
            current_settings=self._current_settings,
        )
        self.started_groups.start()
        return self.started_groups

    def _make_transactions(self) -> TransactionCoordinator:
        log = self._topic_log(
            TRANSACTION_STATE,
            new_topic_partitions=self._settings.transaction_state_log_num_partitions,
            commit_timeout_ms=TRANSACTION_WRITE_MS_MAX,
        )
        self.started_transactions = late.TransactionCoordinator(
            log,
            clock=self._clock,
            current_settings=self._current_settings,
            images=self._images,
            producer_ids=self.producer_ids,
            transport=self.peer_transport("transactions"),
            version_level=lambda: self._images.current.features.level(TRANSACTION_VERSION),
        )
        self.started_transactions.start()
        return self.started_transactions

    def _make_shares(self) -> ShareCoordinator:
        settings = self._settings
        log = self._topic_log(
            SHARE_GROUP_STATE,
            new_topic_partitions=settings.share_coordinator_state_topic_num_partitions,
            commit_timeout_ms=settings.share_coordinator_write_timeout_ms,
        )
        self.started_shares = late.ShareCoordinator(
            log, clock=self._clock, settings=settings, images=self._images
        )
        self.started_shares.start()
        return self.started_shares

    def _topic_log(
        self, topic: str, *, new_topic_partitions: int, commit_timeout_ms: int
    ) -> ReplicatedTopicLog:
        return late.ReplicatedTopicLog(
            topic,
            partitions=self._partitions,
            images=self._images,
            controller=self._controller,
            new_topic_partitions=new_topic_partitions,
            commit_timeout_ms=commit_timeout_ms,
        )

    def peer_transport(self, purpose: str) -> PeerTransport:
        """Carries requests to brokers, this one among them, over connections of its own."""
        client_id = f"broker-{self._broker_id}-{purpose}"
        transport = PeerTransport(
            self._broker_id,
            InterBrokerClient(
                images=self._images,
                network=self._network,
                client_id=client_id,
                current_settings=self._current_settings,
            ),
            client_id=client_id,
            dispatch=lambda: self.dispatch,
        )
        self._transports.append(transport)
        return transport
