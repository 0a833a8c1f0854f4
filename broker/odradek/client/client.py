"""The connection to a cluster: bootstrap, one connection per broker, cached metadata, each request to its broker.

Admin, producer and consumer share one `Client`. It opens connections when they are first needed, one task at a time per
broker, and drops broken ones. Every wait has a time limit: connecting, each request, and a whole call with its retries.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from odradek.client.addresses import Address, parse_addresses
from odradek.client.arguments import is_client_of
from odradek.client.checked_calls import checking_arguments
from odradek.client.connection import NO_FEATURES, BrokerConnection, BrokerFeatures
from odradek.client.errors import (
    METADATA_STALE,
    RETRIABLE,
    ClientClosed,
    ClientTimeout,
    ConnectionFailed,
    raise_for,
)
from odradek.client.metadata import NO_LEADER, ClusterInfo, NewestLeaders, cluster_info
from odradek.foundation.client_limits import (
    CLIENT_REFUSALS_LOG_SECONDS,
    CLIENT_RETRY_PAUSE_MS_MAX,
    CLIENT_RETRY_PAUSE_MS_MIN,
    CLIENT_UNKNOWN_TOPIC_RETRIES_MAX,
)
from odradek.foundation.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidRequest,
    LeaderNotAvailable,
    NotController,
    NotCoordinator,
    OdradekError,
    UnknownTopicOrPartition,
)
from odradek.foundation.ids import TopicPartition
from odradek.foundation.words import kind_of
from odradek.network.network import Network, SystemNetwork
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.errors import code_of

if TYPE_CHECKING:
    from odradek.wire.protocol.messages import AnyMessage

logger = logging.getLogger(__name__)
T = TypeVar("T")

_NOT_CONTROLLER = code_of(NotController)
_COORDINATOR_MOVED = (NotCoordinator, CoordinatorNotAvailable, ConnectionFailed, ClientTimeout)
_COORDINATOR_REFUSES = (NotCoordinator, CoordinatorNotAvailable, CoordinatorLoadInProgress)
_REFUSAL_HINT = " (`odradek doctor` looks for the cause, as a full disk)"
METADATA_VERSIONS = (4, 12)
GROUP_COORDINATOR = 0
TRANSACTION_COORDINATOR = 1
# Before 4 a request has one key, and version 0 knows groups alone.
FIND_COORDINATOR_VERSIONS = {GROUP_COORDINATOR: (0, 6), TRANSACTION_COORDINATOR: (1, 6)}
_COORDINATED = {GROUP_COORDINATOR: "group", TRANSACTION_COORDINATOR: "transactional id"}


@checking_arguments("__init__")
class Client:
    """A cluster as a client sees it. `async with Client("127.0.0.1:9092") as client:` connects and closes.

    `bootstrap` is one address or several (`host:port,[::1]:9093`); they are tried in order until one answers.
    `security` has Kafka's own properties: security.protocol, sasl.mechanism, sasl.jaas.config, ssl.*.
    `request_timeout_ms` is for one request, `api_timeout_ms` for a call with its retries (by default as long).

    Raises ValueError for an address, and SettingError for a property that cannot serve. Raises DependencyError where a
    PKCS#12 file or a token needs a package that is not installed.
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        *,
        security: Mapping[str, str] | None = None,
        client_id: str = "odradek",
        request_timeout_ms: int = 30_000,
        api_timeout_ms: int | None = None,
        connect_timeout_ms: int = 10_000,
        metadata_age_ms_max: int = 300_000,
        network: Network | None = None,
        random: Random | None = None,
    ) -> None:
        self._bootstrap = parse_addresses(bootstrap)
        self._client_id = client_id
        self.request_timeout_ms = request_timeout_ms
        self._api_timeout_ms = api_timeout_ms or request_timeout_ms
        self._connect_timeout_ms = connect_timeout_ms
        self._metadata_age_seconds_max = metadata_age_ms_max / 1000
        if security is not None:
            if network is not None:
                raise InvalidRequest("a client takes security or a network of its own, not both")
            from odradek.client.secured import network_with

            network = network_with(security, client_id=client_id)
        self._network = network or SystemNetwork()
        self.random = random or Random()
        self._connections: dict[tuple[Address, str], BrokerConnection] = {}
        self._opening: dict[tuple[Address, str], asyncio.Lock] = {}
        self._lanes = 0
        self._cluster = ClusterInfo(cluster_id=None, controller_id=NO_LEADER)
        self._newest_leaders = NewestLeaders()
        self._cluster_at = float("-inf")
        self._cluster_sent_at = float("-inf")  # later changes may be missing
        self._refreshing = asyncio.Lock()
        self._coordinators: dict[tuple[int, str], int] = {}  # by type of key, and key
        self._features: BrokerFeatures = NO_FEATURES
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> Client:
        try:
            await self.connect()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def connect(self) -> None:
        """Connect to one of the bootstrap addresses and learn the brokers. Raises ConnectionFailed, ClientTimeout."""
        await self.refresh(())

    async def close(self) -> None:
        """Close every connection. Requests that wait for an answer get ClientClosed."""
        if self._loop is not None and self._loop.is_closed():
            self._connections.clear()  # they ended with their loop
        else:
            self.check_loop()
        self._closed = True
        connections = list(self._connections.values())
        self._connections.clear()
        for connection in connections:
            await connection.close()

    def check_loop(self) -> None:
        """Raise RuntimeError in another event loop than the one that the client was first used in: what waits there
        would never be woken here.
        """
        running = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = running
        elif self._loop is not running:
            state = (
                "which is closed now"
                if self._loop.is_closed()
                else "which is another one than that of this call"
            )
            raise RuntimeError(
                f"this Client belongs to the event loop that it was first used in, {state}. Make a Client, and what "
                "uses it, within each asyncio.run; or take those of odradek.sync, which need no loop"
            )

    # --- metadata -------------------------------------------------------------------------------------------------

    @property
    def cluster(self) -> ClusterInfo:
        """The cached metadata, without a request."""
        return self._cluster

    async def topics(self, names: Sequence[str], *, allow_creation: bool = False) -> ClusterInfo:
        """The cluster with these topics, from the cache if it is recent enough and has them all."""
        age = _now() - self._cluster_at
        known = all(
            name in self._cluster.topics and not self._cluster.topics[name].error_code for name in names
        )
        if known and age < self._metadata_age_seconds_max:
            return self._cluster
        return await self.refresh(names, allow_creation=allow_creation)

    def _update_bootstrap(self, bootstrap: str | Iterable[str]) -> None:
        """Take other addresses to begin at when no connection is open."""
        self._bootstrap = parse_addresses(bootstrap)

    def invalidate(self) -> None:
        """Mark the metadata as wrong: the next call asks a broker."""
        self._cluster_at = float("-inf")

    def note_leader_epoch(self, key: TopicPartition, leader_epoch: int) -> bool:
        """Note the epoch of a committed offset. Returns True when it is newer than the metadata, whose leader is then
        old.
        """
        is_news = self._newest_leaders.note(key, leader_epoch)
        if is_news:
            self._cluster = self._newest_leaders.merge_leaders(self._cluster)
            self.invalidate()
        return is_news

    def leader_epochs(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The known epochs of the leaders; -1 for an unknown one."""
        found = ((key, self._cluster.find_partition(key)) for key in partitions)
        return {key: -1 if partition is None else partition.leader_epoch for key, partition in found}

    async def refresh(self, names: Sequence[str] | None, *, allow_creation: bool = False) -> ClusterInfo:
        """Ask a broker about these topics and all cached ones (None: every topic)."""
        self.check_loop()
        asked_at = _now()
        async with self._refreshing:
            fresh = self._cluster_sent_at >= asked_at and names is not None
            if fresh and all(name in self._cluster.topics for name in names or ()):
                return self._cluster
            wanted = None if names is None else sorted({*names, *self._cluster.topics})
            sent_at = _now()
            response = await (await self.any_broker()).request(
                ApiKey.METADATA,
                versions=METADATA_VERSIONS,
                topics=None if wanted is None else [{"name": name, "topic_id": None} for name in wanted],
                allow_auto_topic_creation=allow_creation,
                include_cluster_authorized_operations=False,
                include_topic_authorized_operations=False,
            )
            known = cluster_info(response)
            if names is not None:
                # A deleted topic must not be requested for ever.
                kept = {
                    name: info for name, info in known.topics.items() if not info.error_code or name in names
                }
                known = ClusterInfo(known.cluster_id, known.controller_id, known.brokers, kept)
            self._cluster = self._newest_leaders.merge_leaders(known)
            self._cluster_at = _now()
            self._cluster_sent_at = sent_at
            return self._cluster

    # --- connections ----------------------------------------------------------------------------------------------

    async def any_broker(self) -> BrokerConnection:
        """A connection to some broker: an open one, else a known broker, else the bootstrap addresses in order."""
        self.check_loop()
        for (_, lane), connection in self._connections.items():
            if not lane and connection.is_open:
                return connection
        addresses = dict.fromkeys((*self._bootstrap, *(b.address for b in self._cluster.brokers.values())))
        failures: list[OdradekError] = []
        for address in addresses:
            try:
                return await self._connection(address)
            except (ConnectionFailed, ClientTimeout) as failure:
                failures.append(failure)
        if len(failures) == 1:
            raise failures[0]
        kind = ClientTimeout if all(isinstance(f, ClientTimeout) for f in failures) else ConnectionFailed
        words = "; ".join(str(failure) for failure in failures)
        raise kind(f"no broker could be reached: {words}") from failures[-1]

    def new_lane(self, purpose: str) -> str:
        """The name of a new set of connections, for the caller alone; see `release_lane`. A broker answers the requests
        of a connection in order. So a request that waits at the broker (a fetch without data, joining a group) delays
        all later ones on that connection.
        """
        self._lanes += 1
        return f"{purpose}-{self._lanes}"

    async def release_lane(self, lane: str) -> None:
        """Close the connections of a lane."""
        for key in [key for key in self._connections if key[1] == lane]:
            await self._connections.pop(key).close()
            self._opening.pop(key, None)

    async def broker(self, broker_id: int, *, lane: str = "") -> BrokerConnection:
        """A connection to that broker. Raises ConnectionFailed when it is unknown or cannot be reached."""
        if broker_id not in self._cluster.brokers or self._cluster_at == float("-inf"):
            await self.refresh(
                ()
            )  # it may have started since the metadata was read, or restarted at another address
        info = self._cluster.brokers.get(broker_id)
        if info is None:
            raise ConnectionFailed(f"broker {broker_id} is not part of the cluster at the moment; try again")
        try:
            return await self._connection(info.address, lane)
        except (ConnectionFailed, ClientTimeout) as failure:
            self.invalidate()
            if info.address in self._bootstrap:
                raise
            raise type(failure)(
                f"{failure}; that is the address which broker {broker_id} advertises: if it cannot be reached "
                "from here, correct advertised.listeners (--advertise) of the broker"
            ) from failure

    async def controller(self) -> BrokerConnection:
        """A connection to the controller, or to any broker if none is known (it forwards)."""
        controller_id = self._cluster.controller_id
        if controller_id in self._cluster.brokers:
            return await self.broker(controller_id)
        return await self.any_broker()

    async def _connection(self, address: Address, lane: str = "") -> BrokerConnection:
        self.check_loop()
        if self._closed:
            raise ClientClosed("the client is closed")
        key = (address, lane)
        found = self._connections.get(key)
        if found is not None and found.is_open:
            return found
        async with self._opening.setdefault(key, asyncio.Lock()):
            found = self._connections.get(key)
            if found is not None and found.is_open:
                return found
            if found is not None:
                await found.close()
            connection = await BrokerConnection.open(
                address,
                network=self._network,
                client_id=self._client_id,
                connect_timeout_ms=self._connect_timeout_ms,
                request_timeout_ms=self.request_timeout_ms,
            )
            if self._was_closed():
                await connection.close()
                raise ClientClosed("the client was closed while it connected")
            self._connections[key] = connection
            if connection.features.epoch > self._features.epoch:
                self._features = connection.features
            return connection

    def _was_closed(self) -> bool:
        return self._closed

    # --- leaders and coordinators ---------------------------------------------------------------------------------

    async def leaders(
        self, partitions: Iterable[TopicPartition], *, allow_creation: bool = False
    ) -> dict[int, list[TopicPartition]]:
        """The partitions by their leader. Raises UnknownTopicOrPartition, LeaderNotAvailable."""
        wanted = list(partitions)
        cluster = await self.topics(sorted({tp.topic for tp in wanted}), allow_creation=allow_creation)
        by_leader: dict[int, list[TopicPartition]] = {}
        for topic_partition in wanted:
            leader = cluster.partition(topic_partition).leader
            if leader == NO_LEADER:
                self.invalidate()
                raise LeaderNotAvailable(
                    f"partition {topic_partition} has no leader at the moment; try again"
                )
            by_leader.setdefault(leader, []).append(topic_partition)
        return by_leader

    async def coordinator(self, group_id: str, *, lane: str = "") -> BrokerConnection:
        """A connection to the group's coordinator. Raises CoordinatorNotAvailable while there is none."""
        return await self._coordinator(GROUP_COORDINATOR, group_id, lane)

    async def transaction_coordinator(self, transactional_id: str) -> BrokerConnection:
        """A connection to the transactional id's coordinator. Raises CoordinatorNotAvailable while there is none."""
        return await self._coordinator(TRANSACTION_COORDINATOR, transactional_id, "")

    async def _coordinator(self, key_type: int, key: str, lane: str) -> BrokerConnection:
        broker_id = self._coordinators.get((key_type, key))
        if broker_id is None:
            response = await (await self.any_broker()).request(
                ApiKey.FIND_COORDINATOR,
                versions=FIND_COORDINATOR_VERSIONS[key_type],
                key_type=key_type,
                key=key,
                coordinator_keys=[key],
            )
            answer = getattr(response, "coordinators", (response,))[0]
            about = f"{_COORDINATED[key_type]} {key!r}"
            raise_for(
                answer.error_code,
                getattr(answer, "error_message", None),
                about=about,
                **{_COORDINATED[key_type].replace(" ", "_"): key},
            )
            broker_id = answer.node_id
            known = self._cluster.brokers.get(broker_id)
            if known is None or known.address != Address(answer.host, answer.port):
                # Also a broker that restarted at another address: its old address would fail for ever.
                await self.refresh(())
            self._coordinators[key_type, key] = broker_id
        try:
            return await self.broker(broker_id, lane=lane)
        except ConnectionFailed:
            self._coordinators.pop((key_type, key), None)
            raise

    def finalized_level(self, feature: str) -> int:
        """The level of a feature that all brokers agree on, by the newest that any broker said; 0 without one."""
        return self._features.levels.get(feature, 0)

    # --- requests with retries ------------------------------------------------------------------------------------

    async def ask(self, api: ApiKey, versions: tuple[int, int], **fields: Any) -> AnyMessage:
        """Some broker's answer to a request, which is sent again where it got none. Its errors are the caller's."""

        async def attempt() -> AnyMessage:
            return await (await self.any_broker()).request(api, versions=versions, **fields)

        return await self.with_retries(attempt)

    async def ask_controller(
        self, api: ApiKey, versions: tuple[int, int], *, answers: str, **fields: Any
    ) -> AnyMessage:
        """The controller's answer, with rows in its field `answers`. The request is sent again when the controller has
        moved, and for no other error of a row.
        """

        async def attempt() -> AnyMessage:
            answer = await (await self.controller()).request(api, versions=versions, **fields)
            for row in getattr(answer, answers):
                if row.error_code == _NOT_CONTROLLER:
                    raise_for(row.error_code)
            return answer

        return await self.with_retries(attempt)

    async def with_retries(
        self,
        attempt: Callable[[], Awaitable[T]],
        *,
        group_id: str | None = None,
        transactional_id: str | None = None,
        retriable: tuple[type[OdradekError], ...] = RETRIABLE,
    ) -> T:
        """Run `attempt` until it succeeds or cannot be retried, for at most `api_timeout_ms` over all. Raises the last
        failure when the time is up. An unknown topic gets few tries: mostly its name is misspelt, and only a topic
        created just now needs a wait. The coordinator of `group_id` or `transactional_id` is looked up again if it may
        have moved. A coordinator that refuses for long is logged, since most callers wait in silence.
        """
        began_at, is_said = _now(), False
        deadline = began_at + self._api_timeout_ms / 1000
        pause_ms = CLIENT_RETRY_PAUSE_MS_MIN
        tries_unknown = 0
        while True:
            try:
                result = await attempt()
                if is_said:
                    logger.warning("the coordinator answers again, after %.1f s", _now() - began_at)
                return result
            except retriable as failure:
                tries_unknown += isinstance(failure, UnknownTopicOrPartition)
                if tries_unknown > CLIENT_UNKNOWN_TOPIC_RETRIES_MAX:
                    raise
                if self._closed or _now() + pause_ms / 1000 >= deadline:
                    raise
                if isinstance(failure, METADATA_STALE):
                    self.invalidate()
                if isinstance(failure, _COORDINATOR_MOVED):
                    self._coordinators.pop((GROUP_COORDINATOR, group_id or ""), None)
                    self._coordinators.pop((TRANSACTION_COORDINATOR, transactional_id or ""), None)
                if isinstance(failure, _COORDINATOR_REFUSES) and not is_said:
                    is_said = _now() - began_at >= CLIENT_REFUSALS_LOG_SECONDS
                    if is_said:
                        logger.warning(
                            "still trying after %.0f s: %s%s", _now() - began_at, failure, _REFUSAL_HINT
                        )
                logger.debug("trying again in %d ms: %s", pause_ms, failure)
            await asyncio.sleep(pause_ms / 1000 * self.random.uniform(0.8, 1.2))
            pause_ms = min(pause_ms * 2, CLIENT_RETRY_PAUSE_MS_MAX)


def _now() -> float:
    """The loop's time in seconds. Timers and deadlines use this one clock, also with virtual time."""
    return asyncio.get_running_loop().time()


def client_of(given: object, user: str) -> Client:
    """`given`, which has to be a Client. Raises TypeError, which shows how to make one for `user`, a class."""
    if isinstance(given, Client):
        return given
    if is_client_of(given, "odradek.client.sync"):
        raise TypeError(
            f"{user} takes a Client of asyncio, not one of odradek.sync; write: from odradek.sync import {user}"
        )
    name = user.lower()
    raise TypeError(
        f"{user} takes a Client, not {kind_of(given)}; write: "
        f"async with Client('127.0.0.1:9092') as client, {user}(client) as {name}:"
    )
