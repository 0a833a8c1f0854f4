"""The way of a Cluster's ZooKeeper from open to all that reach it, to protected, to admitting clients; and back.

No step locks out what runs. Brokers and controllers log in first, while servers check nothing. Then servers check
access lists, one after the other. Then the operator takes what must be the brokers' alone, and sees that nothing is
open to all. Only then the NetworkPolicy admits clients. On the way back servers stop to check before brokers stop to
log in.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from odradek_operator.desired.names import (
    BROKER,
    CONTROLLER,
    ZOOKEEPER,
    ZOOKEEPER_PORT,
    AccessStage,
    ZookeeperAccess,
)
from odradek_operator.desired.security import decode_secret
from odradek_operator.desired.zookeeper_access import (
    ACCESS_ANNOTATION,
    LOGIN_SUFFIX,
    checks_access,
    login_secret,
)
from odradek_operator.foundation.keys import Key
from odradek_operator.foundation.zookeeper_login import ZookeeperLogin
from odradek_operator.gateways.kubernetes import Json, metadata
from odradek_operator.gateways.zookeeper_access import ProtectedRegistry
from odradek_operator.gateways.zookeeper_members import EnsembleError
from odradek_operator.reconcilers.cluster import facts
from odradek_operator.reconcilers.cluster.run import ReconcileRun
from odradek_operator.reconcilers.cluster.settings.own_secrets import read_own_secret, write_own_secret
from odradek_operator.resources.zookeeper import ZookeeperServers

# Of each megabyte of a server's heap: a node takes less than a kilobyte beside its data.
_NODES_PER_MEGABYTE: Final = 256
_BYTES_PER_MEGABYTE: Final = 128 * 1024


@dataclass(slots=True)
class ProtectedRegistries:
    """The registries that this process has seen protected, with the login and whether former owners were kept."""

    _known: dict[Key, tuple[str, bool]] = field(default_factory=dict)

    def forget(self, key: Key) -> None:
        """A Cluster is gone, or admits no clients."""
        self._known.pop(key, None)

    def note(self, key: Key, login: str, *, keeps_former: bool) -> None:
        self._known[key] = (login, keeps_former)

    def has(self, key: Key, login: str, *, keeps_former: bool) -> bool:
        return self._known.get(key) == (login, keeps_former)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSeen:
    """What the stage follows from. Logins stand for passwords; None for a pod that has none.

    `servers_there` is whether servers have a StatefulSet, and `set_checks` whether its pods check access lists.
    """

    login: str
    servers_there: bool = False
    set_checks: bool = False
    server_logins: tuple[str | None, ...] = ()
    all_log_in: bool = False
    was_admitted: bool = False
    is_protected: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessFound:
    """How far a ZooKeeper is that is to admit clients or to do so no more; and what went wrong."""

    stage: AccessStage = AccessStage.OPEN
    wanted: AccessStage = AccessStage.OPEN
    problem: str | None = None

    @property
    def is_settled(self) -> bool:
        return self.stage is self.wanted and self.problem is None

    def __str__(self) -> str:
        if self.wanted is AccessStage.OPEN:
            return "ZooKeeper's servers stop to check access lists; brokers and controllers log in until they have"
        if self.stage is AccessStage.LOGIN:
            return "brokers and controllers are restarted to log in to ZooKeeper; clients are admitted after that"
        return f"clients are admitted to ZooKeeper when all its servers check access lists{self._why}"

    @property
    def _why(self) -> str:
        return f": {self.problem}" if self.problem else ""


def choose_stage(seen: AccessSeen, *, is_wanted: bool) -> AccessStage:
    """The stage that manifests are made for now."""
    if not is_wanted:
        # A broker that started without a login would be locked out by a server that still checks.
        has_checks = seen.set_checks or any(seen.server_logins)
        return AccessStage.LOGIN if has_checks else AccessStage.OPEN
    if seen.servers_there and not seen.set_checks and not seen.all_log_in:
        return AccessStage.LOGIN
    is_first = bool(seen.server_logins) and all(one == seen.login for one in seen.server_logins)
    stays = seen.was_admitted and all(seen.server_logins)
    return AccessStage.ADMITTED if stays or (is_first and seen.is_protected) else AccessStage.CHECKED


async def settle_access(
    run: ReconcileRun, protected: ProtectedRegistries
) -> tuple[ReconcileRun, AccessFound]:
    """The run with the stage for its manifests. The Secret is made by `write_login`.

    Raises ObjectsOfOthers, KubernetesError.
    """
    servers, is_wanted = run.context.spec.zookeeper.servers, checks_access(run.context.spec)
    if servers is None or not (is_wanted or _has_access(run)):
        protected.forget(run.key)
        return run, AccessFound()
    secret = await read_own_secret(run, LOGIN_SUFFIX)
    login = None if secret is None else ZookeeperLogin.read(decode_secret(secret))
    if login is None and not is_wanted:
        return run, AccessFound()
    login = login or ZookeeperLogin.make()
    run = replace(run, zookeeper_login=login)
    seen, problem = see_access(run, login), None
    if is_wanted:
        seen, problem = await _protect(run, servers, login, seen, protected)
    else:
        protected.forget(run.key)
    stage = choose_stage(seen, is_wanted=is_wanted)
    run = run.with_context(
        zookeeper_access=ZookeeperAccess(
            stage=stage, login=login.fingerprint if stage > AccessStage.OPEN else ""
        )
    )
    wanted = AccessStage.ADMITTED if is_wanted else AccessStage.OPEN
    return run, AccessFound(stage=stage, wanted=wanted, problem=problem)


async def write_login(run: ReconcileRun) -> None:
    """Make the Secret with the logins, where pods have one. Raises ObjectsOfOthers, KubernetesError."""
    if run.zookeeper_login is not None and run.context.zookeeper_access.logs_in:
        before = await read_own_secret(run, LOGIN_SUFFIX)
        await write_own_secret(run, login_secret(run.context, run.zookeeper_login), before)


def see_access(run: ReconcileRun, login: ZookeeperLogin) -> AccessSeen:
    stateful_set = run.objects.get(("StatefulSet", run.context.object_name(ZOOKEEPER)))
    return AccessSeen(
        login=login.fingerprint,
        servers_there=stateful_set is not None,
        set_checks=stateful_set is not None and _of_template(stateful_set) is not None,
        server_logins=tuple(_of_pod(pod) for pod in _pods(run, ZOOKEEPER)),
        all_log_in=all(
            found == login.fingerprint
            for component, kind in ((BROKER, "StatefulSet"), (CONTROLLER, "Deployment"))
            for found in _logins_of(run, component, kind)
        ),
        was_admitted=_admits(run.objects.get(("NetworkPolicy", run.context.object_name(ZOOKEEPER)))),
    )


async def _protect(
    run: ReconcileRun,
    servers: ZookeeperServers,
    login: ZookeeperLogin,
    seen: AccessSeen,
    protected: ProtectedRegistries,
) -> tuple[AccessSeen, str | None]:
    """Protect the registry where this process has not seen that it is; what went wrong."""
    keeps_former = not seen.all_log_in
    if protected.has(run.key, seen.login, keeps_former=keeps_former):
        return replace(seen, is_protected=True), None
    # Only a server with this login knows the operator.
    checking = {metadata(pod)["name"] for pod in _pods(run, ZOOKEEPER) if _of_pod(pod) == login.fingerprint}
    ready = [pod for pod in run.server_pods() if pod.ready and pod.address and pod.name in checking]
    if not ready or len(checking) < len(seen.server_logins):
        return seen, None
    wanted = ProtectedRegistry(
        root=run.context.zookeeper_path,
        login=login,
        nodes_max=servers.heap_megabytes * _NODES_PER_MEGABYTE,
        bytes_max=servers.heap_megabytes * _BYTES_PER_MEGABYTE,
        keeps_former=keeps_former,
    )
    try:
        await run.admin.protect_registry([f"{pod.address}:{ZOOKEEPER_PORT}" for pod in ready], wanted)
    except EnsembleError as failure:
        return seen, str(failure)
    protected.note(run.key, seen.login, keeps_former=keeps_former)
    return replace(seen, is_protected=True), None


def _has_access(run: ReconcileRun) -> bool:
    """Whether any pod of the Cluster logs in to ZooKeeper, or checks access lists."""
    sets = ((ZOOKEEPER, "StatefulSet"), (BROKER, "StatefulSet"), (CONTROLLER, "Deployment"))
    return any(found is not None for component, kind in sets for found in _logins_of(run, component, kind))


def _logins_of(run: ReconcileRun, component: str, kind: str) -> list[str | None]:
    """The logins of a component's pods, and of those that would be made."""
    body = run.objects.get((kind, run.context.object_name(component)))
    sets = run.broker_sets() if component == BROKER else () if body is None else (body,)
    return [
        *(_of_template(one) for one in sets),
        *(_of_pod(pod) for pod in _pods(run, component)),
    ]


def _pods(run: ReconcileRun, component: str) -> list[Json]:
    return [
        body
        for (kind, _), body in run.objects.items()
        if kind == "Pod" and facts.component_of(body) == component
    ]


def _of_template(body: Json) -> str | None:
    return _of_pod(body["spec"]["template"])


def _of_pod(body: Json) -> str | None:
    found = (metadata(body).get("annotations") or {}).get(ACCESS_ANNOTATION)
    return None if found is None else str(found)


def _admits(policy: Json | None) -> bool:
    """Whether a NetworkPolicy of ZooKeeper has a rule for clients, beside that for our own pods."""
    rules = ((policy or {}).get("spec") or {}).get("ingress") or ()
    return (
        sum(any(one.get("port") == ZOOKEEPER_PORT for one in rule.get("ports") or ()) for rule in rules) > 1
    )
