"""Reconciles a Mirror: finds how workers connect, applies what it is made of, asks workers what they do.

Nothing waits for the operator when a Mirror is deleted. Kubernetes deletes what belongs to it, and a worker that is
stopped ends its transaction and leaves its groups. Topics and positions at the target stay. So a Mirror that is made
again under the same name continues where it stopped.

The operator reads no Secret to find how workers connect (`cluster_logins`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from odradek_operator.desired.cluster_logins import ClusterLogin
from odradek_operator.desired.mirror import mirror_manifests
from odradek_operator.desired.mirror_names import ConnectionFiles, MirrorContext
from odradek_operator.desired.names import HTTP_PORT, MIRROR, RESTART_ANNOTATION
from odradek_operator.foundation.keys import Key
from odradek_operator.foundation.settings import OperatorSettings
from odradek_operator.gateways.kubernetes import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    MIRRORS,
    NETWORK_POLICIES,
    SERVICE_ACCOUNTS,
    SERVICES,
    Forbidden,
    Json,
    Kubernetes,
    Refused,
    metadata,
    owner_reference,
)
from odradek_operator.gateways.mirrors import MirrorWorkers, WorkerPage
from odradek_operator.reconcilers.applying import Applier
from odradek_operator.reconcilers.cluster.facts import pod_is_ready, pod_problem, set_state
from odradek_operator.reconcilers.cluster.status.problems import replica_failure
from odradek_operator.reconcilers.cluster_logins import find_cluster, find_cluster_login
from odradek_operator.reconcilers.mirror.decide import (
    STARTING_SECONDS,
    WATCHED_SECONDS,
    MirrorDecision,
    Seen,
    find_blocking_problem,
    judge,
)
from odradek_operator.reconcilers.ownership import MIRROR_OWNER, ObjectsOfOthers
from odradek_operator.reconcilers.reconciler import (
    Environment,
    conditions_of,
    is_deleted,
    is_paused,
    status_of,
)
from odradek_operator.reconcilers.references import find_missing
from odradek_operator.reconcilers.user_secrets import ConnectionProblem, describe_unready
from odradek_operator.resources.conditions import READY, Condition, is_ready, ready_condition
from odradek_operator.resources.mirror import MirrorConnection, MirrorSpec
from odradek_operator.resources.mirror_status import MirrorStatus
from odradek_operator.resources.structure import InvalidResource, parse

OWNED: Final = (SERVICES, CONFIG_MAPS, SERVICE_ACCOUNTS, DEPLOYMENTS, DISRUPTION_BUDGETS, NETWORK_POLICIES)
BLOCKED_SECONDS: Final = 60.0
Objects = dict[tuple[str, str], Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """The mounts and known addresses of workers, by alias; and the problems."""

    files: tuple[ConnectionFiles, ...] = ()
    bootstraps: tuple[tuple[str, str], ...] = ()
    problems: tuple[ConnectionProblem, ...] = ()


class MirrorReconciler:
    """The kind Mirror."""

    def __init__(
        self, environment: Environment, *, workers: MirrorWorkers, settings: OperatorSettings
    ) -> None:
        self._environment = environment
        self._workers = workers
        self._settings = settings
        self._applier = Applier(environment.kubernetes, MIRROR_OWNER, OWNED)
        # A status that was written comes back as an event. Workers are not asked again for that.
        self._asked: dict[Key, tuple[float, tuple[str, ...], tuple[WorkerPage | None, ...]]] = {}

    async def reconcile(self, key: Key) -> float | None:
        environment = self._environment
        body = await environment.kubernetes.get(MIRRORS, key.namespace, key.name)
        if body is None or is_deleted(body):
            self._applier.forget(key)
            self._asked.pop(key, None)
            environment.conditions.forget(key)
            return None
        if is_paused(body):
            stated = ready_condition(None, "Paused", "nothing is looked at, and workers continue")
            await environment.write_status(body, status_of(body, MirrorStatus), [stated])
            return None
        try:
            spec = parse(MirrorSpec, body.get("spec") or {})
        except InvalidResource as invalid:
            await self._report(
                body, ready_condition(False, "InvalidSpec", f"{invalid}; correct the resource")
            )
            return None
        image = spec.image or self._settings.broker_image
        if not image:
            message = "no image is known: set spec.image, or start the operator with --broker-image"
            await self._report(body, ready_condition(False, "NoImage", message))
            return None
        return await self._carry_out(key, body, spec, image)

    async def _carry_out(self, key: Key, body: Json, spec: MirrorSpec, image: str) -> float | None:
        kubernetes = self._environment.kubernetes
        found = await _find_connections(kubernetes, key.namespace, spec)
        context = self._context(key, body, spec, image, found)
        objects = await self._applier.read(key, str(metadata(body)["uid"]))
        is_running = ("Deployment", context.object_name(MIRROR)) in objects
        manifests = mirror_manifests(context)
        missing = await self._find_missing(key, context, manifests)
        if missing is not None:
            found = replace(found, problems=(*found.problems, missing))
        if find_blocking_problem(found.problems, is_running=is_running) is None:
            try:
                await self._applier.check_all(key, manifests, objects)
                await self._applier.apply_all(key, manifests, objects)
                await self._applier.prune(key, manifests, objects, owner=str(metadata(body)["uid"]))
            except ObjectsOfOthers as taken:
                reason = "EarlierMirror" if taken.are_earlier else "ObjectsOfOthers"
                await self._report(body, ready_condition(False, reason, str(taken)))
                return STARTING_SECONDS if taken.are_earlier else BLOCKED_SECONDS
            except (Refused, Forbidden) as refusal:
                # Another try changes nothing: the Mirror must change, or the operator's rights.
                await self._report(body, _refusal_condition(refusal))
                raise
        verdict = await self._judge(key, body, context, found, objects)
        await self._environment.write_status(body, verdict.status, verdict.conditions)
        await self._report_news(body, verdict.conditions)
        return verdict.again_seconds

    async def _find_missing(
        self, key: Key, context: MirrorContext, manifests: Sequence[Json]
    ) -> ConnectionProblem | None:
        """What workers' pods refer to and is not there: they would not start."""
        templates = [one["spec"]["template"] for one in manifests if one["kind"] == DEPLOYMENTS.kind]
        own = {context.object_name(MIRROR)}
        missing = await find_missing(self._environment.kubernetes, key.namespace, templates, own=own)
        if not missing:
            return None
        message = (
            f"workers need the {', '.join(missing)} in the namespace {key.namespace}: make it, or name another one. "
            "Workers that are there stay as they are until then"
        )
        return ConnectionProblem(reason="ReferenceMissing", message=message)

    def _context(
        self, key: Key, body: Json, spec: MirrorSpec, image: str, found: Connections
    ) -> MirrorContext:
        annotations = metadata(body).get("annotations") or {}
        return MirrorContext(
            name=key.name,
            namespace=key.namespace,
            spec=spec,
            owner=owner_reference(body),
            image=image,
            files=found.files,
            bootstraps=dict(found.bootstraps),
            restart=str(annotations.get(RESTART_ANNOTATION) or ""),
        )

    # --- what there is ------------------------------------------------------------------------------------------------

    async def _judge(
        self,
        key: Key,
        body: Json,
        context: MirrorContext,
        found: Connections,
        objects: Objects,
    ) -> MirrorDecision:
        deployment = objects.get(("Deployment", context.object_name(MIRROR)))
        pods = [one for (kind, _), one in objects.items() if kind == "Pod" and not is_deleted(one)]
        problems = [problem for pod in pods if not pod_is_ready(pod) and (problem := pod_problem(pod))]
        seen = Seen(
            workers=set_state(deployment),
            pod_problem=replica_failure(deployment or {}) or next(iter(problems), None),
            problems=found.problems,
            # Also of those that are not ready: their pages say why.
            pages=await self._fetch_pages(key, pods),
        )
        return judge(context, status_of(body, MirrorStatus), seen, self._environment.now())

    async def _fetch_pages(self, key: Key, pods: list[Json]) -> tuple[WorkerPage | None, ...]:
        hosts = tuple(sorted(str(ip) for pod in pods if (ip := (pod.get("status") or {}).get("podIP"))))
        now = asyncio.get_running_loop().time()
        asked_at, asked, pages = self._asked.get(key, (0.0, (), ()))
        if hosts != asked or now - asked_at >= WATCHED_SECONDS or None in pages:
            pages = tuple(await self._workers.fetch_pages(hosts, HTTP_PORT))
            self._asked[key] = (now, hosts, pages)
        return pages

    # --- what is reported ---------------------------------------------------------------------------------------------

    async def _report(self, body: Json, stated: Condition) -> None:
        """Write a status that leaves all but the conditions as it is."""
        await self._environment.write_status(body, status_of(body, MirrorStatus), [stated])
        await self._report_news(body, (stated,))

    async def _report_news(self, body: Json, stated: tuple[Condition, ...]) -> None:
        """An event where Ready has a new reason."""
        known = {one.type: one for one in conditions_of(body)}
        now = next(one for one in stated if one.type == READY)
        before = known.get(READY)
        if before is not None and (before.status, before.reason) == (now.status, now.reason):
            return
        await self._environment.report_event(body, now.reason, now.message, warning=_is_bad(now, known))


def _is_bad(now: Condition, known: Mapping[str, Condition]) -> bool:
    """Workers that have never served yet are on their way; all else that is not ready needs a look."""
    if now.status == "True" or now.reason in ("Paused", "EarlierMirror"):
        return False
    was_ready = READY in known and known[READY].status == "True"
    return now.reason != "WorkersNotReady" or was_ready


def _refusal_condition(refusal: Forbidden | Refused) -> Condition:
    if isinstance(refusal, Forbidden):
        reason, what = "Forbidden", "give the operator's role this right, or lift the quota that forbids it"
    else:
        reason, what = "Refused", "correct what this Mirror asks for"
    return ready_condition(
        False, reason, f"Kubernetes refuses what belongs to this Mirror; {what}: {refusal}"
    )


# --- how workers connect ------------------------------------------------------------------------------------------


async def _find_connections(kubernetes: Kubernetes, namespace: str, spec: MirrorSpec) -> Connections:
    """Return how workers connect to all clusters of a Mirror. Raises KubernetesError."""
    named: Sequence[tuple[str, MirrorConnection]] = [
        (spec.target_alias, spec.target),
        *((one.alias, one) for one in spec.sources),
    ]
    files: list[ConnectionFiles] = []
    bootstraps: list[tuple[str, str]] = []
    problems: list[ConnectionProblem] = []
    for alias, connection in named:
        if connection.bootstrap is not None:
            bootstraps.append((alias, connection.bootstrap))
            if connection.client_secret is not None:
                files.append(
                    ConnectionFiles(alias=alias, login=ClusterLogin(secret=connection.client_secret))
                )
            continue
        found, problem = await _find_cluster_files(kubernetes, namespace, alias, connection)
        if found is not None:
            files.append(found)
        if problem is not None:
            problems.append(problem)
    return Connections(files=tuple(files), bootstraps=tuple(bootstraps), problems=tuple(problems))


async def _find_cluster_files(
    kubernetes: Kubernetes, namespace: str, alias: str, connection: MirrorConnection
) -> tuple[ConnectionFiles | None, ConnectionProblem | None]:
    name = str(connection.cluster)
    cluster, problem = await find_cluster(kubernetes, namespace, name)
    if cluster is None:
        return None, problem
    found, problem = await find_cluster_login(
        kubernetes, namespace, name, cluster, user=connection.user, starts="the mirror"
    )
    if problem is None and not is_ready(conditions_of(cluster)):
        message = (
            f"the Cluster {name} is not ready yet{describe_unready(cluster)}; the mirror starts when it is"
        )
        problem = ConnectionProblem(reason="ClusterNotReady", message=message, may_pass=True)
    return None if found is None else ConnectionFiles(alias=alias, login=found), problem
