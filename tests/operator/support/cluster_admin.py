"""Brokers as a Cluster's reconciler knows them: they take settings from their file, and may refuse a restart.

They move a few partitions with each run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from odradek.client.errors import ConnectionFailed
from odradek.foundation.errors import InvalidReplicationFactor, OdradekError
from odradek.foundation.settings.broker_settings import USED
from odradek.foundation.settings.file import parse_properties
from odradek_operator.foundation.keys import Key
from odradek_operator.foundation.zookeeper_login import ZookeeperLogin
from odradek_operator.gateways.cluster_admin import Filling, Health, InForce, RestartAnswer
from odradek_operator.gateways.kubernetes import CONFIG_MAPS, PODS, Json, metadata
from odradek_operator.gateways.zookeeper_access import ProtectedRegistry
from odradek_operator.gateways.zookeeper_members import EnsembleConfiguration, EnsembleError
from tests.operator.support.balanced_load import BalancedLoad
from tests.operator.support.objects import Objects


@dataclass
class Brokers(BalancedLoad):
    """A broker takes its file when its pod is created, by the pod's uid. `overrides` are the common ones set since,
    `own` those of single brokers. `silent` brokers do not answer about their settings; with `refusal` none can be set.
    """

    objects: Objects
    cluster: str = "events"
    answers: dict[int, RestartAnswer] = field(default_factory=dict)
    overrides: dict[str, str] = field(default_factory=dict)
    own: dict[int, dict[str, str]] = field(default_factory=dict)
    refusal: OdradekError | None = None
    replicas: dict[int, int] = field(default_factory=dict)
    moving_to: dict[int, int] = field(default_factory=dict)
    cordoned: set[int] = field(default_factory=set)
    without_room: set[int] = field(default_factory=set)
    """Brokers whose volumes are too full to be given partitions."""
    emptied: set[int] = field(default_factory=set)
    """Brokers that were to go, and that the cluster still knows."""
    silent: set[int] = field(default_factory=set)
    full: dict[int, str] = field(default_factory=dict)
    too_few: bool = False
    failure: Exception | None = None
    has_controller: bool = True
    without_session: set[str] = field(default_factory=set)
    leader: int = 1
    """The number of the ZooKeeper server that leads, from 1; 0 while there is none."""
    looking: set[str] = field(default_factory=set)
    voters: tuple[int, ...] = ()
    """The voters of ZooKeeper; all servers once they are first asked."""
    resizes: int = 0
    resize_login: ZookeeperLogin | None = None
    protected: list[tuple[tuple[str, ...], ProtectedRegistry]] = field(default_factory=list)
    """The addresses at which the registry was protected, and how."""
    open_nodes: int = 0
    loses_answers: bool = False
    asked: list[int] = field(default_factory=list)
    throttles_ended: int = 0
    throttles_kept: int = 0
    """How many times ending a throttle fails."""
    users: set[str] = field(default_factory=set)
    topics: set[str] = field(default_factory=set)
    secured: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """How the operator connects, by bootstrap address."""
    _files: dict[str, Mapping[str, str]] = field(default_factory=dict)

    async def restart_answer(self, host: str, port: int, cluster: Key) -> RestartAnswer:
        assert port == 9644
        pod = self._pod_at(host)
        if pod is None:
            return RestartAnswer(known=False)
        broker = int(metadata(pod)["name"].rpartition("-")[2])
        self.asked.append(broker)
        return self.answers.get(broker, RestartAnswer(known=True))

    async def read_health(self, host: str, port: int, cluster: Key) -> Health | None:
        assert port == 9644
        for component in ("controller", "broker"):
            for pod in self._pods(component):
                if (pod.get("status") or {}).get("podIP") == host:
                    return self._health(component, metadata(pod)["name"])
        return None

    def _health(self, component: str, name: str) -> Health | None:
        if component == "broker":
            return Health(has_session=name not in self.without_session)
        is_active = self.has_controller and name == metadata(self._pods("controller")[0])["name"]
        followers = len([pod for pod in self._pods("broker") if self._is_ready(pod)])
        return Health(is_active_controller=is_active, followers=followers if is_active else 0)

    async def secure(self, bootstrap: str, properties: Mapping[str, str], cluster: Key) -> None:
        self.secured[bootstrap] = properties

    def forget(self, cluster: Key) -> None:
        self.secured.clear()

    async def read_zookeeper_mode(self, host: str, port: int) -> str | None:
        assert port == 2181
        pods = self._pods("zookeeper")
        names = [metadata(pod)["name"] for pod in pods if (pod.get("status") or {}).get("podIP") == host]
        if not names or names[0] in self.looking or not self.leader:
            return None
        name = names[0]
        if len(pods) == 1:
            return "standalone"
        return "leader" if name == f"{self.cluster}-zookeeper-{self.leader - 1}" else "follower"

    async def read_ensemble(self, addresses: Sequence[str]) -> EnsembleConfiguration:
        if not self.voters:
            self.voters = tuple(range(1, len(self._pods("zookeeper")) + 1))
        return EnsembleConfiguration(voters=self.voters, version=f"{0x100000000 + self.resizes:x}")

    async def resize_ensemble(
        self,
        addresses: Sequence[str],
        *,
        joining: Sequence[str],
        leaving: Sequence[int],
        login: ZookeeperLogin | None,
    ) -> EnsembleConfiguration:
        self.resize_login = login
        joined = {int(line.partition("=")[0].removeprefix("server.")) for line in joining}
        self.voters = tuple(sorted({*self.voters, *joined} - set(leaving)))
        self.resizes += 1
        if self.loses_answers:
            raise EnsembleError("ZooKeeper: ConnectionLoss")
        return await self.read_ensemble(addresses)

    async def protect_registry(self, addresses: Sequence[str], wanted: ProtectedRegistry) -> None:
        self.protected.append((tuple(addresses), wanted))
        if self.open_nodes:
            raise EnsembleError(f"{self.open_nodes} nodes of ZooKeeper are open to all")

    @staticmethod
    def _is_ready(pod: Json) -> bool:
        conditions = (pod.get("status") or {}).get("conditions", ())
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    async def read_settings(self, bootstrap: str, broker: int) -> Mapping[str, InForce]:
        if self.failure is not None:
            raise self.failure
        if broker in self.silent:
            raise ConnectionFailed(f"broker {broker} says nothing")
        pod = next(
            pod for pod in self._pods("broker") if metadata(pod)["name"].rpartition("-")[2] == str(broker)
        )
        uid = metadata(pod)["uid"]
        if uid not in self._files:
            self._files[uid] = self._file(broker)
        file = self._files[uid]
        in_force = {key: InForce(value=one.default_text, given=False) for key, one in USED.items()}
        in_force |= {key: InForce(value=value, given=True) for key, value in file.items()}
        in_force |= {
            key: InForce(value=value, given=True, common_override=True)
            for key, value in self.overrides.items()
        }
        own = self.own.get(broker, {})
        return in_force | {
            key: InForce(value=value, given=True, own_override=True) for key, value in own.items()
        }

    async def find_full_directories(self, bootstrap: str, brokers: Collection[int]) -> Mapping[int, str]:
        return {broker: path for broker, path in self.full.items() if broker in brokers}

    async def set_defaults(self, bootstrap: str, values: Mapping[str, str | None]) -> None:
        if self.refusal is not None:
            raise self.refusal
        for key, value in values.items():
            if value is None:
                self.overrides.pop(key, None)
            else:
                self.overrides[key] = value

    async def read_cluster_id(self, bootstrap: str) -> str | None:
        return "cluster-1"

    async def list_users(self, bootstrap: str) -> frozenset[str]:
        return frozenset(self.users)

    async def remove_users(self, bootstrap: str, names: Collection[str]) -> None:
        self.users -= set(names)

    async def list_topics(self, bootstrap: str) -> frozenset[str]:
        return frozenset(self.topics)

    async def fill_brokers(
        self, bootstrap: str, onto: Collection[int], *, bytes_per_second: int | None
    ) -> Filling:
        self.cordoned -= set(onto)
        begun = 0
        for broker in set(onto) - self.without_room:
            if not self.replicas.get(broker) and not self.moving_to.get(broker):
                self.moving_to[broker] = 4
                begun += 4
        return Filling(begun=begun, without_room=tuple(sorted(self.without_room.intersection(onto))))

    async def count_arriving(self, bootstrap: str, brokers: Collection[int]) -> int:
        left = sum(self.moving_to.get(broker, 0) for broker in brokers)
        for broker in brokers:
            if self.moving_to.get(broker):
                self.moving_to[broker] -= 2
                self.replicas[broker] = self.replicas.get(broker, 0) + 2
        return left

    async def check_drain(self, bootstrap: str, leaving: Collection[int]) -> None:
        if self.too_few:
            raise InvalidReplicationFactor("orders-0 is to have 3 replicas and only 2 brokers take any")

    async def drain_brokers(
        self, bootstrap: str, leaving: Collection[int], *, bytes_per_second: int | None
    ) -> int:
        self.cordoned |= set(leaving)
        self.emptied |= set(leaving)
        left = sum(self.replicas.get(broker, 0) for broker in leaving)
        for broker in leaving:
            self.replicas[broker] = max(0, self.replicas.get(broker, 0) - 2)
        return left

    async def stop_drain(self, bootstrap: str, brokers: Collection[int]) -> None:
        self.cordoned -= set(brokers)

    async def end_throttle(self, bootstrap: str) -> None:
        if self.throttles_kept:
            self.throttles_kept -= 1
            raise ConnectionFailed("the connection was lost")
        self.throttles_ended += 1

    async def forget_brokers(self, bootstrap: str, *, keep: Collection[int]) -> tuple[int, ...]:
        there = {int(str(metadata(pod)["name"]).rpartition("-")[2]) for pod in self._pods("broker")}
        gone = tuple(sorted(broker for broker in self.emptied - there if broker not in keep))
        self.emptied -= set(gone)
        return gone

    def _file(self, broker: int) -> Mapping[str, str]:
        config = self.objects.get(CONFIG_MAPS, "default", f"{self.cluster}-broker")
        assert config is not None
        addresses = config["data"]["addresses"]
        line = next(one for one in addresses.splitlines() if one.startswith(f"{broker})"))
        pod = next(one for one in self._pods("broker") if metadata(one)["name"].endswith(f"-{broker}"))
        advertised = line.partition('"')[2].rpartition('"')[0].replace("${NODE_IP}", pod["status"]["hostIP"])
        file = parse_properties(config["data"]["broker.properties"], source="broker.properties")
        return {**file, "advertised.listeners": advertised}

    def _pods(self, component: str) -> list[Json]:
        return self.objects.list(PODS, "default", {"app.kubernetes.io/component": component})

    def _pod_at(self, host: str) -> Json | None:
        return next((pod for pod in self._pods("broker") if pod["status"]["podIP"] == host), None)
