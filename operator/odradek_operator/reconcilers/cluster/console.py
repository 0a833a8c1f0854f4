"""The console of a Cluster: what it logs in with, whether it serves, and why not.

Brokers come first: nothing that is wrong with the console stops a run or makes the Cluster unready. So Kubernetes tries
its manifests apart from all others. A User that is missing or not ready stops a console only before it is there. Other
clusters that cannot be shown are left out of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from odradek_operator.desired.binding import binding_config_map
from odradek_operator.desired.cluster_logins import ClusterLogin
from odradek_operator.desired.console import CLIENT_PROPERTIES, console_address, console_manifests
from odradek_operator.desired.console_files import ConsoleFiles, list_given_secrets
from odradek_operator.desired.names import CONSOLE, Context
from odradek_operator.desired.pods import digest
from odradek_operator.gateways.kubernetes import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    NETWORK_POLICIES,
    Forbidden,
    Json,
    Refused,
    metadata,
)
from odradek_operator.reconcilers.cluster.console_clusters import (
    find_others,
    find_unused_mask,
    find_version,
)
from odradek_operator.reconcilers.cluster.facts import component_of, pod_is_ready, pod_problem, set_state
from odradek_operator.reconcilers.cluster.run import ReconcileRun
from odradek_operator.reconcilers.cluster.status.problems import replica_failure
from odradek_operator.reconcilers.ownership import ObjectsOfOthers
from odradek_operator.reconcilers.references import find_missing
from odradek_operator.reconcilers.user_secrets import ConnectionProblem, find_user_secret
from odradek_operator.resources.console import ClusterConsole
from odradek_operator.resources.security import AuthenticationType

_STARTING: Final = "Starting"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleFound:
    """The console as it is. It serves where there is no `problem`. While `is_replaced` the former pod serves.

    `left_out` are the clusters that it does not show, each with the reason. `watches_others` is whether what it is made
    of changes without an event of its own Cluster.
    """

    address: str
    problem: ConnectionProblem | None = None
    is_replaced: bool = False
    left_out: tuple[str, ...] = ()
    watches_others: bool = False

    @property
    def is_settled(self) -> bool:
        """Whether it serves as it is wanted."""
        return self.problem is None and not self.is_replaced and not self.left_out

    @property
    def needs_attention(self) -> bool:
        """Whether something has to be done: a console that starts needs time alone."""
        return self.problem is not None and self.problem.reason != _STARTING


async def settle_console(run: ReconcileRun) -> ConsoleFound | None:
    """Make the console as it is wanted; None where none is. Raises KubernetesError."""
    console = run.context.spec.console
    if console is None:
        return None
    address = console_address(run.context)
    is_there = (DEPLOYMENTS.kind, run.context.object_name(CONSOLE)) in run.objects
    login, problem = await _find_login(run, console)
    if login is None or (problem is not None and not (problem.may_pass and is_there)):
        return ConsoleFound(address=address, problem=problem)
    if (problem := find_unused_mask(run.context.name, console)) is not None:
        return ConsoleFound(address=address, problem=problem)
    files, left_out = await _find_files(run, console, login)
    refusal = await _apply(run, console_manifests(run.context, console, files))
    found = ConsoleFound(address=address, problem=refusal) if refusal else _look_at_pod(run, address)
    watches = bool(console.clusters or list_given_secrets(console))
    return replace(found, left_out=left_out, watches_others=watches)


def console_objects(run: ReconcileRun) -> list[Json]:
    """The objects that are there and stay, while a console is wanted: not all of them can be made at any time."""
    if run.context.spec.console is None:
        return []
    name = run.context.object_name(CONSOLE)
    left = set() if run.context.spec.network.enabled else {NETWORK_POLICIES.kind}
    left |= set() if run.context.spec.console.needs_files else {CONFIG_MAPS.kind}
    return [body for (kind, its_name), body in run.objects.items() if its_name == name and kind not in left]


async def _find_login(
    run: ReconcileRun, console: ClusterConsole
) -> tuple[ClusterLogin | None, ConnectionProblem | None]:
    context, listener = run.context, run.context.spec.internal_listener
    if console.logins is not None:
        authentication = None if listener is None else listener.authentication
        if authentication is None or authentication.type is not AuthenticationType.SCRAM:
            message = (
                "logins need users with passwords: give internalListener the authentication scram-sha-512"
            )
            return None, ConnectionProblem(reason="PasswordsNeeded", message=message)
        return _login_of_binding(context), None
    if console.user is not None:
        kubernetes, namespace = run.environment.kubernetes, context.namespace
        found, problem = await find_user_secret(
            kubernetes, namespace, context.name, console.user, starts="the console"
        )
        return None if found is None else ClusterLogin(secret=found.name, version=found.version), problem
    if listener is not None and listener.authentication is not None:
        message = (
            "clients of the internal listener log in: give console.user, a User of this Cluster, or logins"
        )
        return None, ConnectionProblem(reason="UserNeeded", message=message)
    return _login_of_binding(context), None


def _login_of_binding(context: Context) -> ClusterLogin:
    """The ConfigMap for clients of this Cluster, which has been applied in this run."""
    binding = binding_config_map(context)
    return ClusterLogin(
        config_map=str(metadata(binding)["name"]), version=digest(str(binding["data"][CLIENT_PROPERTIES]))
    )


async def _find_files(
    run: ReconcileRun, console: ClusterConsole, login: ClusterLogin
) -> tuple[ConsoleFiles, tuple[str, ...]]:
    """All that the console is given, and the clusters that are left out of it."""
    kubernetes, namespace = run.environment.kubernetes, run.key.namespace
    others = await find_others(kubernetes, namespace, console)
    own = {name: await find_version(kubernetes, namespace, name) for name in list_given_secrets(console)}
    # What of these is missing is found below, by the pod that needs it.
    versions = others.versions | {name: version or "" for name, version in own.items()}
    return ConsoleFiles(login=login, others=others.shown, versions=versions), others.left_out


async def _apply(run: ReconcileRun, manifests: list[Json]) -> ConnectionProblem | None:
    """Why the console stays as it is, where it does."""
    templates = [one["spec"]["template"] for one in manifests if one["kind"] == DEPLOYMENTS.kind]
    made = {run.context.object_name(CONSOLE)}
    missing = await find_missing(run.environment.kubernetes, run.key.namespace, templates, own=made)
    if missing:
        message = (
            f"the console needs the {', '.join(missing)} in the namespace {run.key.namespace}: make it, or name "
            "another one. A console that is there stays as it is until then"
        )
        return ConnectionProblem(reason="ReferenceMissing", message=message)
    try:
        await run.applier.check_all(run.key, manifests, run.objects)
        await run.apply_all(manifests)
    except ObjectsOfOthers as taken:
        return ConnectionProblem(reason="ObjectsOfOthers", message=str(taken))
    except Forbidden as refusal:
        message = f"give the operator's role this right, or lift the quota that forbids it: {refusal}"
        return ConnectionProblem(reason="Forbidden", message=message)
    except Refused as refusal:
        return ConnectionProblem(reason="Refused", message=f"correct spec.console: {refusal}")
    return None


def _look_at_pod(run: ReconcileRun, address: str) -> ConsoleFound:
    """Whether the console serves as it is wanted, and why not."""
    deployment = run.objects[DEPLOYMENTS.kind, run.context.object_name(CONSOLE)]
    state = set_state(deployment)
    if state.settled and state.ready and state.current >= state.wanted:
        return ConsoleFound(address=address)
    pods = [
        body for (kind, _), body in run.objects.items() if kind == "Pod" and component_of(body) == CONSOLE
    ]
    problems = [problem for pod in pods if not pod_is_ready(pod) and (problem := pod_problem(pod))]
    if (why := replica_failure(deployment) or next(iter(problems), None)) is not None:
        message = f"its pod does not come up: {why}"
        return ConsoleFound(address=address, problem=ConnectionProblem(reason="NotServing", message=message))
    if state.ready:
        return ConsoleFound(address=address, is_replaced=True)
    starting = ConnectionProblem(reason=_STARTING, message="its pod starts")
    return ConsoleFound(address=address, problem=starting)
