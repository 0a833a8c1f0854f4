"""Brokers as a Cluster's reconciler knows them: they take settings from their file, may refuse a restart, and move
partitions a little with each look.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from odradek.client.errors import ConnectionFailed
from odradek.foundation.errors import InvalidReplicationFactor, OdradekError
from odradek.foundation.properties import parse_properties
from odradek.foundation.settings import USED
from odradek_operator.gateways.cluster_admin import InForce, RestartAnswer
from odradek_operator.gateways.kubernetes import CONFIG_MAPS, PODS, Json, metadata
from tests.operator.support.objects import Objects


@dataclass
class Brokers:
    """A broker takes its file when its pod is made, by the pod's uid; `overrides` are the common ones set since, `own`
    those of single brokers. `silent` brokers do not tell their settings; with `refusal` none can be set.
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
    silent: set[int] = field(default_factory=set)
    full: dict[int, str] = field(default_factory=dict)
    too_few: bool = False
    failure: Exception | None = None
    asked: list[int] = field(default_factory=list)
    throttles_ended: int = 0
    _files: dict[str, Mapping[str, str]] = field(default_factory=dict)

    async def restart_answer(self, host: str, port: int) -> RestartAnswer:
        assert port == 9644
        broker = int(metadata(self._pod_at(host))["name"].rpartition("-")[2])
        self.asked.append(broker)
        return self.answers.get(broker, RestartAnswer(known=True))

    async def is_active_controller(self, host: str, port: int) -> bool:
        pods = self._pods("controller")
        return bool(pods) and (pods[0].get("status") or {}).get("podIP") == host

    async def settings(self, bootstrap: str, broker: int) -> Mapping[str, InForce]:
        if self.failure is not None:
            raise self.failure
        if broker in self.silent:
            raise ConnectionFailed(f"broker {broker} says nothing")
        pod = self.objects.get(PODS, "default", f"{self.cluster}-broker-{broker}")
        assert pod is not None
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

    async def full_directories(self, bootstrap: str, brokers: Collection[int]) -> Mapping[int, str]:
        return {broker: path for broker, path in self.full.items() if broker in brokers}

    async def set_defaults(self, bootstrap: str, values: Mapping[str, str | None]) -> None:
        if self.refusal is not None:
            raise self.refusal
        for key, value in values.items():
            if value is None:
                self.overrides.pop(key, None)
            else:
                self.overrides[key] = value

    async def cluster_id(self, bootstrap: str) -> str | None:
        return "cluster-1"

    async def spread(self, bootstrap: str, onto: Collection[int], *, bytes_per_second: int | None) -> int:
        self.cordoned -= set(onto)
        begun = 0
        for broker in onto:
            if not self.replicas.get(broker) and not self.moving_to.get(broker):
                self.moving_to[broker] = 4
                begun += 4
        return begun

    async def arriving(self, bootstrap: str, brokers: Collection[int]) -> int:
        left = sum(self.moving_to.get(broker, 0) for broker in brokers)
        for broker in brokers:
            if self.moving_to.get(broker):
                self.moving_to[broker] -= 2
                self.replicas[broker] = self.replicas.get(broker, 0) + 2
        return left

    async def check_drain(self, bootstrap: str, leaving: Collection[int]) -> None:
        if self.too_few:
            raise InvalidReplicationFactor("orders-0 is to have 3 replicas and only 2 brokers take any")

    async def drain(self, bootstrap: str, leaving: Collection[int], *, bytes_per_second: int | None) -> int:
        self.cordoned |= set(leaving)
        left = sum(self.replicas.get(broker, 0) for broker in leaving)
        for broker in leaving:
            self.replicas[broker] = max(0, self.replicas.get(broker, 0) - 2)
        return left

    async def stop_drain(self, bootstrap: str, brokers: Collection[int]) -> None:
        self.cordoned -= set(brokers)

    async def end_throttle(self, bootstrap: str) -> None:
        self.throttles_ended += 1

    def _file(self, broker: int) -> Mapping[str, str]:
        config = self.objects.get(CONFIG_MAPS, "default", f"{self.cluster}-broker")
        assert config is not None
        addresses = config["data"]["addresses"]
        line = next(one for one in addresses.splitlines() if one.startswith(f"{broker})"))
        told = line.partition('"')[2].rpartition('"')[0].replace("${NODE_IP}", "192.168.0.1")
        file = parse_properties(config["data"]["broker.properties"], source="broker.properties")
        return {**file, "advertised.listeners": told}

    def _pods(self, component: str) -> list[Json]:
        return self.objects.list(PODS, "default", {"app.kubernetes.io/component": component})

    def _pod_at(self, host: str) -> Json:
        return next(pod for pod in self._pods("broker") if pod["status"]["podIP"] == host)
