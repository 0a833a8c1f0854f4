"""The check before an upgrade: whether the operator of this image may take over the Clusters that there are.

It reads and changes nothing. What would be refused is a problem, and ends the command with exit code 1. The chart runs
it before an upgrade, and Helm then changes nothing. What an upgrade would meet on its way is a note.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from odradek_operator.gateways.kubernetes import (
    CLUSTERS,
    CONSUMER_GROUPS,
    Api,
    Json,
    Kubernetes,
    NotFound,
    metadata,
)
from odradek_operator.reconcilers.cluster.settings.images import newest_version, refusal_of
from odradek_operator.reconcilers.reconciler import conditions_of, is_deleted, status_of
from odradek_operator.resources.cluster import ClusterSpec
from odradek_operator.resources.cluster_status import ClusterStatus
from odradek_operator.resources.conditions import READY
from odradek_operator.resources.structure import InvalidResource, Nested, parse
from odradek_operator.resources.workloads import Workload, scalable_workloads


async def check_upgrade(
    kubernetes: Kubernetes, namespaces: Sequence[str], *, broker_image: str, say: Callable[[str], None]
) -> int:
    """Print problems and notes of an upgrade to this operator; the number of problems. Raises KubernetesError.

    `broker_image` is the image of Clusters that name none.
    """
    problems = 0
    clusters: dict[tuple[str, str], Json] = {}
    for body in await _list_resources(kubernetes, CLUSTERS, namespaces):
        clusters[metadata(body)["namespace"], metadata(body)["name"]] = body
        problem = _find_problem(body, broker_image)
        if problem is not None:
            problems += 1
            say(f"problem: {_format_name(body)}: {problem}")
        for expected in _list_notes(body):
            say(f"note: {_format_name(body)}: {expected}")
    for group in await _list_resources(kubernetes, CONSUMER_GROUPS, namespaces):
        if (note := _find_unnamed_workload(group, clusters)) is not None:
            say(f"note: {_format_name(group)}: {note}")
    say(f"{len(clusters)} Clusters looked at, {problems} of them with a problem")
    return problems


async def _list_resources(kubernetes: Kubernetes, api: Api, namespaces: Sequence[str]) -> list[Json]:
    found: list[Json] = []
    for namespace in namespaces or (None,):
        try:
            found += [body for body in await kubernetes.list(api, namespace) if not is_deleted(body)]
        except NotFound:
            continue  # The kind is not installed: this is the first operator here.
    return found


def _find_problem(body: Json, broker_image: str) -> str | None:
    try:
        spec = parse(ClusterSpec, body["spec"])
    except InvalidResource as invalid:
        return f"this operator cannot read its spec: {'; '.join(invalid.problems)}"
    if not (spec.image or broker_image):
        return None
    refused = refusal_of(spec, broker_image, newest_version(status_of(body, ClusterStatus)))
    return None if refused is None else f"{refused.reason}: {refused.message}"


def _list_notes(body: Json) -> list[str]:
    notes = []
    ready = next((one for one in conditions_of(body) if one.type == READY), None)
    if ready is None or str(ready.status) != "True":
        why = "nothing is known of it yet" if ready is None else f"{ready.reason}: {ready.message}"
        notes.append(f"is not Ready now ({why})")
    elif ready.reason == "Rolling":
        notes.append("its brokers are being restarted now")
    if status_of(body, ClusterStatus).movement is not None:
        notes.append("partitions are on their way between brokers now")
    spec: Json = body.get("spec") or {}
    if not spec.get("image") and not spec.get("version"):
        notes.append("follows the operator's default image: its brokers are replaced where that is another")
    return notes


def _find_unnamed_workload(group: Json, clusters: Mapping[tuple[str, str], Json]) -> str | None:
    spec = group.get("spec") or {}
    cluster = clusters.get((metadata(group)["namespace"], str(spec.get("cluster"))))
    problems: list[str] = []
    given = spec.get("workload")
    workload = None if given is None else Nested(Workload).parse(given, "spec.workload", problems)
    if workload is None or cluster is None or spec.get("replicas") is None:
        return None
    if any(one.covers(workload) for one in scalable_workloads(cluster)):
        return None
    return f"{workload} is scaled no more until spec.scalableWorkloads of {_format_name(cluster)} names it"


def _format_name(body: Json) -> str:
    return f"{body.get('kind') or 'resource'} {metadata(body)['namespace']}/{metadata(body)['name']}"
