"""Requests to a Cluster's brokers and controllers: through the client, and at their HTTP ports.

A process that cannot be reached is no error where the answer may be "not known": pods come and go all the time.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
import ssl
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import aiohttp

from odradek.client.admin.brokers import BrokerAdmin
from odradek.client.admin.disks import directories
from odradek.client.admin.logs import LogAdmin
from odradek.client.client import Client
from odradek.client.results import AlterOperation, ConfigChange, ConfigSource, ResourceType
from odradek.foundation.errors import BrokerIdNotRegistered, InvalidRequest, OdradekError
from odradek.foundation.machine_limits import PROCESS_IDS_APART
from odradek_operator.foundation.keys import Key
from odradek_operator.foundation.zookeeper_login import ZookeeperLogin
from odradek_operator.gateways import zookeeper_access, zookeeper_members
from odradek_operator.gateways.balancing import BalanceAdmin, HttpBalanceAdmin
from odradek_operator.gateways.brokers import BrokerClients, pods_context
from odradek_operator.gateways.users import BrokerUsers
from odradek_operator.gateways.zookeeper_access import ProtectedRegistry
from odradek_operator.gateways.zookeeper_members import EnsembleConfiguration

logger = logging.getLogger(__name__)

ANSWER_SECONDS_MAX: Final = 5.0
# `srvr` takes some 300 bytes, `mntr` some thousands.
ANSWER_BYTES_MAX: Final = 256 * 1024

HTTP_SECONDS_MAX: Final = 5.0
_MODE: Final = re.compile(r"^Mode: (\w+)$", re.MULTILINE)
_MEASURE: Final = re.compile(
    r"^odradek_(is_controller|controller_followers|registry_connected)(?:\{process=\"\d+\"\})? (\S+)$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartAnswer:
    """A broker's answer about its own restart. `waiting_for` may become safe, `never_safe` cannot by waiting.
    `last_copies` is the number of partitions of which no other broker has a replica in sync, and `last_named` are some
    of them. `refused_writes` is its text about a full disk, with which it may not start again; empty without one.
    """

    known: bool
    waiting_for: tuple[str, ...] = ()
    never_safe: tuple[str, ...] = ()
    last_copies: int = 0
    last_named: tuple[str, ...] = ()
    refused_writes: str = ""

    @property
    def allowed(self) -> bool:
        """Whether waiting longer would make it no safer."""
        return self.known and not self.waiting_for


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """A broker's or controller's measures of its ties to the others, as far as a roll waits for them."""

    is_active_controller: bool = False
    followers: int = 0
    """Brokers that follow it; only of the active controller."""
    has_session: bool = True
    """Whether its session with the registry is connected now. True where its version does not measure that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """A setting as a broker has it; `given` is False for a default."""

    value: str | None
    given: bool
    own_override: bool = False
    """Set for this broker alone while it ran: a common default does not reach it."""
    common_override: bool = False
    """Set for all brokers while they ran: it outlives their restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """A step of filling brokers: the partitions that began to move, and brokers whose volumes have no room for more."""

    begun: int
    without_room: tuple[int, ...] = ()


class ClusterAdmin(BalanceAdmin, Protocol):
    """The calls. Those with a bootstrap address raise OdradekError when no broker answers."""

    async def restart_answer(self, host: str, port: int, cluster: Key) -> RestartAnswer:
        """Return the answer of the broker at this address about its own restart."""

    async def read_health(self, host: str, port: int, cluster: Key) -> Health | None:
        """Return the measures of the broker or controller at this address; None when it does not answer."""

    async def read_zookeeper_mode(self, host: str, port: int) -> str | None:
        """`leader`, `follower`, `observer` or `standalone`; None of a server that does not serve."""

    async def read_ensemble(self, addresses: Sequence[str]) -> EnsembleConfiguration:
        """The voters in the ensemble of the ZooKeeper servers at these addresses. Raises EnsembleError."""

    async def resize_ensemble(
        self,
        addresses: Sequence[str],
        *,
        joining: Sequence[str],
        leaving: Sequence[int],
        login: ZookeeperLogin | None,
    ) -> EnsembleConfiguration:
        """Change the voters: servers as its configuration names them, and ids. Raises EnsembleError."""

    async def protect_registry(self, addresses: Sequence[str], wanted: ProtectedRegistry) -> None:
        """Give the Cluster's nodes in ZooKeeper to its brokers. Raises EnsembleError, also while any is open to all."""

    async def secure(self, bootstrap: str, properties: Mapping[str, str], cluster: Key) -> None:
        """Connect to this Cluster by Kafka's client properties from now on: to brokers, and to HTTP ports."""

    def forget(self, cluster: Key) -> None:
        """A Cluster is gone."""

    async def read_settings(self, bootstrap: str, broker: int) -> Mapping[str, InForce]:
        """A broker's settings in force, by key."""

    async def find_full_directories(self, bootstrap: str, brokers: Collection[int]) -> Mapping[int, str]:
        """The brokers that refuse records for want of room, each with the path of a full log directory."""

    async def set_defaults(self, bootstrap: str, values: Mapping[str, str | None]) -> None:
        """Set brokers' common settings, while they run; those with None are taken back."""

    async def read_cluster_id(self, bootstrap: str) -> str | None:
        """The cluster's id."""

    async def list_users(self, bootstrap: str) -> frozenset[str]:
        """The names of principals that have a password, access control lists or quotas."""

    async def remove_users(self, bootstrap: str, names: Collection[str]) -> None:
        """Have brokers forget these principals."""

    async def list_topics(self, bootstrap: str) -> frozenset[str]:
        """The names of all topics."""

    async def fill_brokers(
        self, bootstrap: str, onto: Collection[int], *, bytes_per_second: int | None
    ) -> Filling:
        """Let some brokers be given replicas, and begin to move them their share."""

    async def count_arriving(self, bootstrap: str, brokers: Collection[int]) -> int:
        """Return the number of partitions that are on their way to some brokers."""

    async def check_drain(self, bootstrap: str, leaving: Collection[int]) -> None:
        """Raises InvalidReplicationFactor when the other brokers are too few for all that these have."""

    async def drain_brokers(
        self, bootstrap: str, leaving: Collection[int], *, bytes_per_second: int | None
    ) -> int:
        """Give some brokers nothing new and have all that they have moved away; how many replicas they still have.

        It is never none of a broker that was only now to be given nothing: something may be on its way to it.
        """

    async def stop_drain(self, bootstrap: str, brokers: Collection[int]) -> None:
        """Let brokers be given replicas again, and take back what has not moved yet."""

    async def end_throttle(self, bootstrap: str) -> None:
        """Lift the throttles of all moves."""

    async def forget_brokers(self, bootstrap: str, *, keep: Collection[int]) -> tuple[int, ...]:
        """Have the cluster forget the brokers beside those of `keep` that have stopped; which they were.

        One that is alive again or has replicas stays known.
        """


class HttpClusterAdmin(HttpBalanceAdmin):
    """The calls to real brokers."""

    def __init__(self, clients: BrokerClients) -> None:
        super().__init__(clients)
        self._session: aiohttp.ClientSession | None = None
        self._https: dict[Key, tuple[Mapping[str, str], ssl.SSLContext | None]] = {}

    async def close(self) -> None:
        """Close the connections; the clients are their owner's."""
        if self._session is not None:
            await self._session.close()

    async def restart_answer(self, host: str, port: int, cluster: Key) -> RestartAnswer:
        answer = await self._get(host, port, "/can-restart", cluster)
        try:
            found = json.loads(answer) if answer is not None else {}
        except ValueError:
            found = {}
        # A broker that does not know enough yet answers with a reason, and no partitions.
        if not isinstance(found, dict) or "partitions" not in found:
            return RestartAnswer(known=False)
        never = tuple(str(where) for where in found.get("never", ()))
        waiting = tuple(str(where) for where in found["partitions"] if where not in never)
        if not waiting and found["too_few"] > found.get("never_safe", 0):
            waiting = ("others",)
        return RestartAnswer(
            known=True,
            waiting_for=waiting,
            never_safe=never,
            # An earlier version counts those without another replica, and those with too few in sync.
            last_copies=int(found.get("last_copies", found.get("only_here", 0) + found["too_few"])),
            last_named=tuple(str(where) for where in found.get("last", ())),
            refused_writes=str(found.get("refused_writes", "")),
        )

    async def read_health(self, host: str, port: int, cluster: Key) -> Health | None:
        answer = await self._get(host, port, "/metrics", cluster)
        if answer is None:
            return None
        # Of several processes of a machine the one counts that is worst off.
        measured: dict[str, float] = {}
        for name, value in _MEASURE.findall(answer):
            measured[name] = min(float(value), measured.get(name, math.inf))
        return Health(
            is_active_controller=measured.get("is_controller") == 1,
            followers=int(measured.get("controller_followers", 0)),
            has_session=measured.get("registry_connected", 1) == 1,
        )

    async def read_zookeeper_mode(self, host: str, port: int) -> str | None:
        answer = await ask_zookeeper(host, port, "srvr")
        found = None if answer is None else _MODE.search(answer)
        return None if found is None else found[1]

    async def read_ensemble(self, addresses: Sequence[str]) -> EnsembleConfiguration:
        return await zookeeper_members.read_configuration(addresses)

    async def resize_ensemble(
        self,
        addresses: Sequence[str],
        *,
        joining: Sequence[str],
        leaving: Sequence[int],
        login: ZookeeperLogin | None,
    ) -> EnsembleConfiguration:
        return await zookeeper_members.reconfigure(addresses, joining=joining, leaving=leaving, login=login)

    async def protect_registry(self, addresses: Sequence[str], wanted: ProtectedRegistry) -> None:
        await zookeeper_access.protect_registry(addresses, wanted)

    async def secure(self, bootstrap: str, properties: Mapping[str, str], cluster: Key) -> None:
        await self._clients.secure(bootstrap, properties)
        known = self._https.get(cluster)
        if known is None or known[0] != properties:
            self._https[cluster] = (dict(properties), pods_context(properties))

    def forget(self, cluster: Key) -> None:
        self._https.pop(cluster, None)

    async def read_settings(self, bootstrap: str, broker: int) -> Mapping[str, InForce]:
        async with self._clients.connect_admin(bootstrap) as admin:
            entries = await admin.configs.describe(ResourceType.BROKER, str(broker))
        return {
            entry.name: InForce(
                value=entry.value,
                given=entry.source is not ConfigSource.DEFAULT,
                own_override=entry.source is ConfigSource.DYNAMIC_BROKER,
                common_override=entry.source is ConfigSource.DYNAMIC_DEFAULT_BROKER,
            )
            for entry in entries
        }

    async def find_full_directories(self, bootstrap: str, brokers: Collection[int]) -> Mapping[int, str]:
        async with self._clients.connect_client(bootstrap) as client:
            found = await directories(client, brokers, partitions=())
        return {
            broker: one.path
            for broker, answer in found.items()
            if not isinstance(answer, OdradekError)
            for one in answer
            if one.is_full
        }

    async def set_defaults(self, bootstrap: str, values: Mapping[str, str | None]) -> None:
        changes: Sequence[ConfigChange] = [
            ConfigChange(key, value, AlterOperation.DELETE if value is None else AlterOperation.SET)
            for key, value in values.items()
        ]
        async with self._clients.connect_admin(bootstrap) as admin:
            await admin.configs.alter(ResourceType.BROKER, "", changes)

    async def read_cluster_id(self, bootstrap: str) -> str | None:
        async with self._clients.connect_client(bootstrap) as client:
            info: Any = await client.refresh(())
            return None if info.cluster_id is None else str(info.cluster_id)

    async def list_users(self, bootstrap: str) -> frozenset[str]:
        async with self._clients.connect_client(bootstrap) as client:
            return await BrokerUsers(client).list_names()

    async def remove_users(self, bootstrap: str, names: Collection[str]) -> None:
        async with self._clients.connect_client(bootstrap) as client:
            for name in names:
                await BrokerUsers(client).remove(name, user=name)

    async def list_topics(self, bootstrap: str) -> frozenset[str]:
        async with self._clients.connect_client(bootstrap) as client:
            return frozenset((await client.refresh(None)).topics)

    async def fill_brokers(
        self, bootstrap: str, onto: Collection[int], *, bytes_per_second: int | None
    ) -> Filling:
        async with self._clients.connect_client(bootstrap) as client:
            admin = BrokerAdmin(client)
            onto = await _list_processes(client, onto)
            for one in await admin.list():
                if one.id in onto and one.is_cordoned:
                    await admin.uncordon(one.id)
            plan = await admin.plan_balance(onto)
            begun = await admin.execute(plan.moves, bytes_per_second=bytes_per_second)
            return Filling(begun=len(begun), without_room=plan.without_room)

    async def count_arriving(self, bootstrap: str, brokers: Collection[int]) -> int:
        async with self._clients.connect_client(bootstrap) as client:
            moves = await BrokerAdmin(client).reassignments.under_way()
            brokers = await _list_processes(client, brokers)
        return sum(not set(brokers).isdisjoint(one.adding) for one in moves.values())

    async def check_drain(self, bootstrap: str, leaving: Collection[int]) -> None:
        async with self._clients.connect_client(bootstrap) as client:
            await BrokerAdmin(client).plan_drain(*await _list_processes(client, leaving))

    async def drain_brokers(
        self, bootstrap: str, leaving: Collection[int], *, bytes_per_second: int | None
    ) -> int:
        async with self._clients.connect_client(bootstrap) as client:
            admin = BrokerAdmin(client)
            # All of them before any is emptied, or one would be emptied into the next.
            progress = [
                await admin.drain_progress(broker) for broker in await _list_processes(client, leaving)
            ]
            cordoned_now = [one.broker_id for one in progress if not one.is_cordoned]
            for broker in cordoned_now:
                await admin.cordon(broker)
            for one in progress:
                if one.is_stuck:
                    await admin.drain(one.broker_id, bytes_per_second=bytes_per_second)
            return max(sum(one.replicas for one in progress), len(cordoned_now))

    async def stop_drain(self, bootstrap: str, brokers: Collection[int]) -> None:
        async with self._clients.connect_client(bootstrap) as client:
            for broker in await _list_processes(client, brokers):
                await BrokerAdmin(client).undrain(broker)

    async def end_throttle(self, bootstrap: str) -> None:
        async with self._clients.connect_client(bootstrap) as client:
            cluster = await client.refresh(None)
            await BrokerAdmin(client).reassignments.unthrottle(topics=cluster.topics, brokers=cluster.brokers)

    async def forget_brokers(self, bootstrap: str, *, keep: Collection[int]) -> tuple[int, ...]:
        async with self._clients.connect_client(bootstrap) as client:
            known = await LogAdmin(client).describe_cluster(include_fenced=True)
            forgotten: list[int] = []
            for broker in sorted(one for one in known.fenced if one % PROCESS_IDS_APART not in keep):
                try:
                    await BrokerAdmin(client).remove(broker)
                except (InvalidRequest, BrokerIdNotRegistered) as refusal:
                    logger.info("broker %d stays known to the cluster: %s", broker, refusal)
                else:
                    forgotten.append(broker)
        return tuple(forgotten)

    async def _get(self, host: str, port: int, path: str, cluster: Key) -> str | None:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=HTTP_SECONDS_MAX))
        address = f"[{host}]" if ":" in host else host
        _, context = self._https.get(cluster, ({}, None))
        scheme = "http" if context is None else "https"
        try:
            async with self._session.get(f"{scheme}://{address}:{port}{path}", ssl=context or True) as answer:
                return await answer.text()
        except (aiohttp.ClientError, OSError):
            return None


async def ask_zookeeper(host: str, port: int, word: str) -> str | None:
    """Return a ZooKeeper server's answer to a four-letter word; None of one that does not answer within 5 s.

    There is one question for each connection, and an answer as text. Such words need no session. zoo.cfg names those
    that are answered (4lw.commands.whitelist).
    """
    try:
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            return await _ask_server(host, port, word)
    except (OSError, TimeoutError):
        return None


async def _ask_server(host: str, port: int, word: str) -> str:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(word.encode())
        await writer.drain()
        answer = b""
        while len(answer) < ANSWER_BYTES_MAX and (more := await reader.read(ANSWER_BYTES_MAX - len(answer))):
            answer += more
        return answer.decode(errors="replace")
    finally:
        writer.close()


async def _list_processes(client: Client, brokers: Collection[int]) -> tuple[int, ...]:
    """The brokers of the pods with these numbers, which are those of their first brokers, also ones that are away."""
    known = await LogAdmin(client).describe_cluster(include_fenced=True)
    more = {one for one in (*known.brokers, *known.fenced) if one % PROCESS_IDS_APART in brokers}
    return tuple(sorted({*brokers, *more}))
