"""A day of one Cluster in virtual time: people with kubectl, nodes, brokers and the API server act at random.

The operator looks when its queue would: at the time that it asked for, at each change, and at each resync. Its writes
are judged as it makes them. In the evening everything is healed, and what is there then has to be what a new Cluster of
the same spec has. After the Cluster is deleted nothing of it is left but its data.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any, Final

from odradek_operator.desired.names import REPLACE_ANNOTATION, RESTART_ANNOTATION, ROLL_ANNOTATION
from odradek_operator.gateways.cluster_admin import RestartAnswer
from odradek_operator.gateways.kubernetes import (
    CLUSTERS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    NETWORK_POLICIES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    VOLUME_CLAIMS,
    Api,
    Json,
    KubernetesError,
    metadata,
)
from odradek_operator.reconcilers.reconciler import PAUSED_ANNOTATION
from tests.operator.support.cluster_world import ClusterWorld

RESYNC_SECONDS: Final = 300.0
LOOKS_TO_HEAL_MAX: Final = 600
_SETTLED_LOOKS: Final = 5
_BROKERS: Final = (3, 5)
_SUPPORTING: Final = (SERVICES, CONFIG_MAPS, DISRUPTION_BUDGETS, NETWORK_POLICIES, SERVICE_ACCOUNTS)
_SETS: Final = (STATEFUL_SETS, DEPLOYMENTS)
_KINDS: Final = (*_SUPPORTING, *_SETS, SECRETS)


class Broken(AssertionError):
    """The operator did what it may not, or left undone what it has to."""


@dataclass
class Day:
    """One seed. `likely` names what happens 20 times as often. `history` is what happened, a line each."""

    seed: int
    hours: float = 24.0
    likely: tuple[str, ...] = ()
    history: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)
        self.world = ClusterWorld({"brokers": {"storage": {"size": "10Gi"}}})
        self.world.kubernetes.before_write = self._judge
        self._begun = self.world.now
        self._due = self.world.now
        self._seen_version = -1
        self._given_up: set[str] = set()
        self._volumes: dict[str, str] = {}
        self._heal_at: list[tuple[Any, Callable[[], None]]] = []
        self._is_paused = False
        self._size_gi = 10
        self._spec: Json = dict(self.world.body(CLUSTERS, "events")["spec"])

    # --- time -----------------------------------------------------------------------------------------------------

    def play(self) -> None:
        """Raises Broken, with what happened before it."""
        log = logging.getLogger("odradek_operator")
        level = log.level
        log.setLevel(logging.CRITICAL)
        try:
            self._settle("the Cluster is new")
            end = self._begun + timedelta(hours=self.hours)
            while self.world.now < end:
                self._act()
                self._pass(self._random.choice((1, 5, 30, 300, 3_000)))
            self._heal()
            self._settle("everything is healed")
            self._compare()
            self._delete()
        except Broken as broken:
            told = "\n".join(self.history[-60:])
            raise Broken(f"{broken}\nseed {self.seed}; what happened before:\n{told}") from None
        finally:
            log.setLevel(level)

    def _note(self, what: str) -> None:
        self.history.append(f"{self.world.now - self._begun} {what}")

    def _pass(self, seconds: float) -> None:
        """Let time pass. Kubernetes takes a turn each second in which something may happen, and the operator looks."""
        until = self.world.now + timedelta(seconds=seconds)
        while self.world.now < until:
            for at, heal in [one for one in self._heal_at if one[0] <= self.world.now]:
                self._heal_at.remove((at, heal))
                heal()
            changed = self._turn()
            next_at = min([until, self._due, *(at for at, _ in self._heal_at)])
            step = timedelta(seconds=1)
            self.world.now = self.world.now + step if changed else max(self.world.now + step, next_at)

    def _turn(self) -> bool:
        """One look, if it is time for one, and one turn of Kubernetes; whether anything changed."""
        version = self.world.objects.version
        is_event = version != self._seen_version
        if is_event or self.world.now >= self._due:
            after = self._look()
            wait = RESYNC_SECONDS if after is None else min(after, RESYNC_SECONDS)
            self._due = self.world.now + timedelta(seconds=wait)
        self._seen_version = self.world.objects.version
        self.world.nodes.turn()
        self._check_volumes()
        return self.world.objects.version != version

    def _look(self) -> float | None:
        try:
            return self.world.reconcile()
        except KubernetesError:
            return 5.0  # as the queue, which tries again

    def _settle(self, what: str) -> None:
        """Let the operator work by its own events and times until nothing changes for some looks."""
        steady = 0
        for _ in range(LOOKS_TO_HEAL_MAX):
            version = self.world.objects.version
            self._turn()
            self.world.now = max(self.world.now + timedelta(seconds=1), self._due)
            steady = steady + 1 if self.world.objects.version == version else 0
            if steady == _SETTLED_LOOKS:
                break
        else:
            raise Broken(
                f"{what}, and the operator still changes things: {self.world.kubernetes.written[-6:]}"
            )
        if self.world.get(CLUSTERS, "events") is not None:
            ready = self.world.condition("Ready")
            if ready.get("status") != "True":
                raise Broken(f"{what}, and the Cluster is not ready: {ready}; {self.world.status}")

    # --- what may happen ------------------------------------------------------------------------------------------

    def _act(self) -> None:
        actions: list[tuple[int, Callable[[], str | None]]] = [
            (4, self._change_image),
            (3, self._restart_all),
            (4, self._roll_pod),
            (2, self._replace_broker),
            (4, self._scale),
            (4, self._change_setting),
            (2, self._grow_volumes),
            (6, self._lose_pod),
            (6, self._delete_supporting),
            (6, self._damage_supporting),
            (2, self._scale_set_by_hand),
            (5, self._kill_operator),
            (3, self._refuse_calls),
            (4, self._fall_behind),
            (3, self._silence_broker),
            (3, self._break_pod),
            (2, self._lose_controller),
            (2, self._pause),
            (2, self._resize_zookeeper),
            (1, self._apply_again),
        ]
        weights = [
            weight * (20 if action.__name__.lstrip("_") in self.likely else 1) for weight, action in actions
        ]
        (_, action) = self._random.choices(actions, weights)[0]
        done = action()
        if done is not None:
            self._note(done)

    def _change(self, **changes: Any) -> None:
        self.world.change(**changes)
        self._spec = dict(self.world.body(CLUSTERS, "events")["spec"])

    def _change_image(self) -> str:
        image = f"odradek:0.1.{self._random.randrange(3)}"
        self._change(spec__image=image)
        return f"kubectl patch: image {image}"

    def _restart_all(self) -> str:
        value = str(self._random.randrange(1_000))
        self._change(metadata__annotations={RESTART_ANNOTATION: value})
        return f"kubectl annotate cluster restart={value}"

    def _roll_pod(self) -> str | None:
        pod = self._any_pod(self._random.choice(("broker", "controller", "zookeeper")))
        if pod is None:
            return None
        self.world.annotate_pod(pod, ROLL_ANNOTATION, "true")
        return f"kubectl annotate pod {pod} roll"

    def _replace_broker(self) -> str | None:
        pod = self._any_pod("broker")
        if pod is None:
            return None
        self._given_up.add(f"data-{pod}")
        self.world.annotate_pod(pod, REPLACE_ANNOTATION, "true")
        return f"kubectl annotate pod {pod} replace"

    def _scale(self) -> str:
        replicas = self._random.randint(*_BROKERS)
        self._change(spec__brokers={"replicas": replicas})
        return f"kubectl scale: {replicas} brokers"

    def _change_setting(self) -> str:
        key, values = self._random.choice((
            ("log.retention.ms", (3_600_000, 7_200_000, None)),  # changes on running brokers
            ("num.partitions", (3, 7, None)),  # needs restarts
        ))  # fmt: skip
        value = self._random.choice(values)
        self._change(spec__brokers={"config": {key: value}})
        return f"kubectl patch: {key}={value}"

    def _grow_volumes(self) -> str | None:
        if self._size_gi >= 60:
            return None
        self._size_gi += 10
        self._change(spec__brokers={"storage": {"size": f"{self._size_gi}Gi"}})
        return f"kubectl patch: volumes of {self._size_gi}Gi"

    def _lose_pod(self) -> str | None:
        pod = self._any_pod(self._random.choice(("broker", "broker", "controller", "zookeeper")))
        if pod is None:
            return None
        self.world.delete(PODS, pod)
        return f"the pod {pod} is lost"

    def _delete_supporting(self) -> str | None:
        found = self._any_owned((*_SUPPORTING, *_SETS))
        if found is None:
            return None
        api, name = found
        self.world.delete(api, name)
        return f"kubectl delete {api.plural} {name}"

    def _damage_supporting(self) -> str | None:
        found = self._any_owned(_SUPPORTING)
        if found is None:
            return None
        api, name = found
        patches: list[Json] = [{"metadata": {"labels": None}}, {"metadata": {"ownerReferences": None}}]
        data = self.world.body(api, name).get("data")
        if data:
            patches.append({"data": {self._random.choice(sorted(data)): "nonsense"}})
        patch = self._random.choice(patches)
        self.world.merge(api, name, patch)
        return f"kubectl patch {api.plural} {name}: {patch}"

    def _scale_set_by_hand(self) -> str | None:
        found = self._any_owned((STATEFUL_SETS,))
        if found is None:
            return None
        replicas = self._random.randrange(3)
        self.world.merge(STATEFUL_SETS, found[1], {"spec": {"replicas": replicas}})
        return f"kubectl scale statefulset {found[1]} to {replicas}"

    def _kill_operator(self) -> str:
        writes = self._random.randrange(12)
        with self.world.kubernetes.killed_after(writes) as life:
            self._look()
        self.world.restart_operator()
        self._due = self.world.now
        return f"the operator is killed after {writes} writes ({'cut' if life.was_cut else 'idle'})"

    def _refuse_calls(self) -> str:
        self.world.kubernetes.broken = KubernetesError("the API server is away", status=503)
        self._after(self._random.choice((2, 20, 200)), self._allow_calls)
        return "the API server refuses"

    def _allow_calls(self) -> None:
        self.world.kubernetes.broken = None

    def _fall_behind(self) -> str:
        broker = self._random.randrange(_BROKERS[1])
        self.world.brokers.answers[broker] = RestartAnswer(known=True, waiting_for=("orders-3",))
        self._after(self._random.choice((5, 60, 900)), lambda: self._catch_up(broker))
        return f"a restart of broker {broker} is not safe"

    def _catch_up(self, broker: int) -> None:
        self.world.brokers.answers.pop(broker, None)

    def _silence_broker(self) -> str:
        broker = self._random.randrange(_BROKERS[1])
        self.world.brokers.silent.add(broker)
        self._after(self._random.choice((5, 60, 900)), lambda: self.world.brokers.silent.discard(broker))
        return f"broker {broker} does not answer about its settings"

    def _break_pod(self) -> str | None:
        pod = self._any_pod("broker")
        if pod is None:
            return None
        self.world.nodes.broken.add(pod)
        self.world.delete(PODS, pod)
        self._after(self._random.choice((5, 60, 900)), lambda: self.world.nodes.broken.discard(pod))
        return f"{pod} is lost and does not start"

    def _lose_controller(self) -> str:
        self.world.brokers.has_controller = False
        self._after(self._random.choice((5, 60)), self._elect)
        return "no controller is active"

    def _elect(self) -> None:
        self.world.brokers.has_controller = True

    def _pause(self) -> str | None:
        if self._is_paused:
            return None
        self._is_paused = True
        self.world.merge(CLUSTERS, "events", {"metadata": {"annotations": {PAUSED_ANNOTATION: "true"}}})
        self._after(self._random.choice((5, 600)), self._resume)
        return "kubectl annotate cluster paused=true"

    def _resume(self) -> None:
        self.world.merge(CLUSTERS, "events", {"metadata": {"annotations": {PAUSED_ANNOTATION: None}}})
        self._is_paused = False

    def _resize_zookeeper(self) -> str:
        servers = self._random.choice((1, 3))
        self._change(spec__zookeeper={"servers": {"replicas": servers}})
        # A server that left begins without data when it comes back, since its own is old.
        self._given_up |= {f"data-events-zookeeper-{number}" for number in range(servers, 3)}
        return f"kubectl patch: {servers} servers of ZooKeeper"

    def _apply_again(self) -> str:
        """As after `kubectl delete -f` of the wrong file."""
        about = self.world.body(CLUSTERS, "events")["metadata"]
        self._remove_cluster()
        self.world.create(CLUSTERS, "events", self._spec, annotations=dict(about.get("annotations") or {}))
        return "kubectl delete cluster, and apply again"

    def _remove_cluster(self) -> None:
        self.world.delete(CLUSTERS, "events")
        self._look()
        # What Kubernetes collects with the sets that the Cluster owned.
        for pod in self.world.objects.list(PODS, "default"):
            self.world.delete(PODS, metadata(pod)["name"])

    def _after(self, seconds: float, heal: Callable[[], None]) -> None:
        self._heal_at.append((self.world.now + timedelta(seconds=seconds), heal))

    def _heal(self) -> None:
        for _, heal in self._heal_at:
            heal()
        self._heal_at.clear()
        self._note("everything is healed")

    def _any_pod(self, component: str) -> str | None:
        names = sorted(self.world.pods(component))
        return self._random.choice(names) if names else None

    def _any_owned(self, kinds: tuple[Api, ...]) -> tuple[Api, str] | None:
        found = sorted((api.kind, metadata(body)["name"]) for api in kinds for body in self._owned(api))
        if not found:
            return None
        kind, name = self._random.choice(found)
        return next(api for api in kinds if api.kind == kind), name

    def _owned(self, api: Api) -> Iterator[Json]:
        for body in self.world.objects.list(api, "default"):
            if any(one["kind"] == "Cluster" for one in metadata(body).get("ownerReferences") or ()):
                yield body

    # --- what the operator may do ---------------------------------------------------------------------------------

    def _judge(self, what: str, kind: str, name: str) -> None:
        """Look at each write of the operator just before it."""
        if self._is_paused and what not in ("status", "labels"):
            raise Broken(f"the Cluster is paused, and the operator does: {what} {kind} {name}")
        if what != "delete":
            return
        if kind == VOLUME_CLAIMS.kind and name not in self._given_up:
            raise Broken(f"the operator deletes {name}, which holds data that nobody gave up")
        if kind == PODS.kind:
            self._judge_removal(name)

    def _judge_removal(self, name: str) -> None:
        pod = self.world.body(PODS, name)
        component = metadata(pod)["labels"]["app.kubernetes.io/component"]
        if not _serves(pod):
            return
        others = {
            other: body
            for body in self.world.objects.list(PODS, "default", {"app.kubernetes.io/component": component})
            if (other := metadata(body)["name"]) != name
        }
        away = sorted(other for other, body in others.items() if not _serves(body))
        if component == "broker":
            number = int(name.rpartition("-")[2])
            if self.world.brokers.answers.get(number, RestartAnswer(known=True)).waiting_for:
                raise Broken(f"the operator takes {name}, whose restart is not safe")
            if self.world.brokers.replicas.get(number) and self._is_beyond(number):
                raise Broken(f"the operator takes {name} for good, which has replicas still")
        if away:
            raise Broken(f"the operator takes {name} while {', '.join(away)} does not serve")

    def _is_beyond(self, number: int) -> bool:
        body = self.world.get(STATEFUL_SETS, "events-broker")
        return body is not None and number >= int(body["spec"]["replicas"])

    def _check_volumes(self) -> None:
        """A claim is there for good, unless it was given up."""
        there = {
            metadata(body)["name"]: metadata(body)["uid"]
            for body in self.world.objects.list(VOLUME_CLAIMS, "default")
        }
        for name, uid in self._volumes.items():
            if there.get(name) != uid and name not in self._given_up:
                raise Broken(f"the volume of {name} is gone, and nobody gave it up")
        for name, uid in there.items():
            if self._volumes.get(name) not in (None, uid):
                self._given_up.discard(name)  # it was replaced once, as asked
        self._volumes = there

    # --- the evening ----------------------------------------------------------------------------------------------

    def _compare(self) -> None:
        """What is there has to be what a new Cluster has. Volumes of brokers that left may be there besides."""
        fresh = ClusterWorld()
        fresh.delete(CLUSTERS, "events")
        about = self.world.body(CLUSTERS, "events")["metadata"]
        fresh.create(CLUSTERS, "events", self._spec, annotations=dict(about.get("annotations") or {}))
        fresh.settle(looks_max=LOOKS_TO_HEAL_MAX)
        for api in _KINDS:
            wanted, found = _contents(fresh, api), _contents(self.world, api)
            if wanted.keys() != found.keys():
                raise Broken(
                    f"{api.plural}: too many are {sorted(found.keys() - wanted.keys())}, "
                    f"missing are {sorted(wanted.keys() - found.keys())}"
                )
            for name, content in wanted.items():
                if api is SECRETS or "zookeeper" in name:
                    continue  # keys are new each time, and an ensemble keeps how it grew
                if found[name] != content:
                    raise Broken(
                        f"{api.kind} {name} is not as a new one: {_difference(found[name], content)}"
                    )
        for component in ("broker", "zookeeper"):
            if set(self.world.pods(component)) != set(fresh.pods(component)):
                raise Broken(f"the pods of {component} are {sorted(self.world.pods(component))}")

    def _delete(self) -> None:
        self._remove_cluster()
        for _ in range(_SETTLED_LOOKS):
            self.world.look()
        left = {
            (api.kind, metadata(body)["name"])
            for api in (*_SUPPORTING, *_SETS, PODS)
            for body in self.world.objects.list(api, "default")
            if "odradek.io/declared" not in (metadata(body).get("labels") or {})
        }
        if left:
            raise Broken(f"the Cluster is deleted, and these are left: {sorted(left)}")
        self._check_volumes()


def _serves(pod: Json) -> bool:
    conditions = (pod.get("status") or {}).get("conditions", ())
    is_ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return is_ready and not metadata(pod).get("deletionTimestamp")


def _contents(world: ClusterWorld, api: Api) -> dict[str, Json]:
    """What an object says, by its name: without what the API server adds."""
    return {
        metadata(body)["name"]: {
            key: value
            for key, value in body.items()
            if key not in ("metadata", "status", "apiVersion", "kind")
        }
        for body in world.objects.list(api, "default")
    }


def _difference(found: object, wanted: object, path: str = "") -> str:
    """The first place where two contents differ."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key in sorted(found.keys() | wanted.keys()):
            if found.get(key) != wanted.get(key):
                return _difference(found.get(key), wanted.get(key), f"{path}/{key}")
    if isinstance(found, str) and isinstance(wanted, str):
        lines = set(found.splitlines()) ^ set(wanted.splitlines())
        return f"{path}: {sorted(lines)}"
    return f"{path}: {found!r}, and not {wanted!r}"
