"""The conditions of a Cluster, composed from what the steps of a run found. Each says what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from odradek_operator.desired.names import BROKER, CONTROLLER, ZOOKEEPER
from odradek_operator.reconcilers.cluster.console import ConsoleFound
from odradek_operator.reconcilers.cluster.restart_words import format_names
from odradek_operator.reconcilers.cluster.rolling.last_step import ROLLING
from odradek_operator.reconcilers.cluster.rolling.order import Roll
from odradek_operator.reconcilers.cluster.run import ReconcileRun
from odradek_operator.reconcilers.cluster.scaling.broker_count import Reason
from odradek_operator.reconcilers.cluster.status.findings import Findings
from odradek_operator.reconcilers.reconciler import PAUSED_ANNOTATION
from odradek_operator.resources.conditions import PAUSED, READY, Condition, condition, ready_condition

SCALING = "Scaling"
LISTENERS = "Listeners"
VOLUMES = "Volumes"
REACHABLE = "Reachable"
SETTINGS = "Settings"
ZONES = "Zones"
ENSEMBLE = "Zookeeper"
EVICTIONS = "Evictions"
DELETIONS = "Deletions"
CERTIFICATES = "Certificates"
DATA_LOST = "ZookeeperDataLost"
OTHER_PATH = "OtherZookeeperPath"
CONSOLE_SERVES = "Console"
CLUSTERS_LEFT_OUT = "ClustersLeftOut"
VOLUME_AT_RISK = "AtRisk"
REFERENCE_MISSING = "ReferenceMissing"


def conditions(run: ReconcileRun, found: Findings) -> list[Condition]:
    """The conditions of a Cluster. Those besides Ready and Rolling are there only while there is something to say.

    Console is there while one is wanted, so that scripts can wait for it.
    """
    stated = [_ready_condition(run, found), _rolling_condition(found)]
    if found.move.movement is not None or found.move.problem:
        stated.append(_scaling_condition(found))
    if (balancing := found.balance.state_condition()) is not None:
        stated.append(balancing)
    if found.pending:
        first = found.pending[0]
        more = f" and {len(found.pending) - 1} more" if len(found.pending) > 1 else ""
        message = (
            f"the listener {first.listener} waits for {first.reason} for broker {first.broker}{more}; until then "
            "brokers advertise the one before, or none. Look at its Services, or give advertisedHost"
        )
        stated.append(condition(LISTENERS, False, "AddressPending", message))
    elif found.way_in_problem:
        stated.append(condition(LISTENERS, False, run.ways_in.reason or "NotAccepted", found.way_in_problem))
    if found.at_risk:
        message = ". ".join(warned.message for warned in found.at_risk)
        stated.append(condition(VOLUMES, False, VOLUME_AT_RISK, message))
    elif found.volume_problem:
        stated.append(condition(VOLUMES, False, "NotChanged", found.volume_problem))
    elif found.disks.full_directories:
        stated.append(condition(VOLUMES, False, "Full", _describe_full(found.disks.full_directories)))
    if found.unreachable:
        stated.append(condition(REACHABLE, False, "NoAnswer", found.unreachable))
    if found.settings.problem:
        stated.append(condition(SETTINGS, False, "Refused", found.settings.problem))
    if found.adoption.owed:
        message = (
            f"their resources are gone, and brokers have these yet: {found.adoption.owed}. They are deleted as soon as "
            "that is possible; events of this Cluster say what is in the way"
        )
        stated.append(condition(DELETIONS, False, "Waiting", message))
    if found.certificates_problem:
        stated.append(condition(CERTIFICATES, False, "AuthorityNotFollowed", found.certificates_problem))
    if found.zones_problem:
        stated.append(condition(ZONES, False, "Forbidden", found.zones_problem))
    if found.evictions_problem:
        message = (
            f"no broker may be evicted now: {found.evictions_problem}. The drain of a node waits, and "
            "continues by itself"
        )
        stated.append(condition(EVICTIONS, False, "Held", message))
    if found.data_problem:
        stated.append(condition(ENSEMBLE, False, DATA_LOST, found.data_problem))
    elif found.ensemble.problem:
        stated.append(condition(ENSEMBLE, False, "NoAnswer", found.ensemble.problem))
    elif found.ensemble.resize.under_way:
        reason = "Waiting" if found.ensemble.resize.waiting else "Resizing"
        stated.append(condition(ENSEMBLE, True, reason, str(found.ensemble.resize)))
    elif not found.access.is_settled:
        stated.append(condition(ENSEMBLE, True, "AccessChanges", str(found.access)))
    if found.console is not None:
        stated.append(_console_condition(found.console))
    return stated


def conditions_when_paused(known: Iterable[Condition]) -> list[Condition]:
    """The conditions of a paused Cluster: all are unknown, as the operator does not check them."""
    message = f"the operator does not look at this Cluster while the annotation {PAUSED_ANNOTATION} is true"
    types = dict.fromkeys([READY, *(one.type for one in known if one.type != PAUSED)])
    return [condition(type, None, "Paused", message) for type in types]


def _console_condition(console: ConsoleFound) -> Condition:
    if console.problem is not None:
        message = "; ".join([console.problem.message, *(f"without {one}" for one in console.left_out)])
        return condition(CONSOLE_SERVES, False, console.problem.reason, message)
    message = f"the console serves at {console.address}"
    if console.left_out:
        message = f"{message}, without {'; '.join(console.left_out)}"
        return condition(CONSOLE_SERVES, True, CLUSTERS_LEFT_OUT, message)
    if console.is_replaced:
        return condition(CONSOLE_SERVES, True, "Rolling", f"{message} while its pod is replaced")
    return condition(CONSOLE_SERVES, True, "Serving", message)


def _describe_full(directories: Mapping[int, str]) -> str:
    # Without free bytes, which change with every look.
    brokers = format_names(tuple(f"broker {broker} ({path})" for broker, path in sorted(directories.items())))
    return (
        f"the volumes of these are full, and refuse records until they have room: {brokers}. Give "
        "brokers.storage.size more, delete topics, or shorten their retention"
    )


def _ready_condition(run: ReconcileRun, found: Findings) -> Condition:
    wanted, present = run.context.spec.brokers.total, len(run.context.broker_ids)
    serving = sum(pod.ready for pod in found.pods)
    if found.data_problem:
        return ready_condition(False, DATA_LOST, found.data_problem)
    if found.path_problem:
        return ready_condition(False, OTHER_PATH, found.path_problem)
    if run.refused_image is not None:
        message = f"{run.refused_image.message}. Brokers and controllers continue with {run.context.image}"
        return ready_condition(False, run.refused_image.reason, message)
    if found.missing is not None:
        return ready_condition(False, REFERENCE_MISSING, found.missing)
    if found.zookeeper is not None and found.zookeeper.ready * 2 <= found.zookeeper.wanted:
        servers = found.zookeeper
        message = f"{servers.ready} of {servers.wanted} ZooKeeper servers are ready; more than half must be"
        message = _append_problem(message, found.pod_problems.get(ZOOKEEPER))
        return ready_condition(False, "ZookeeperNotReady", message)
    if run.controllers().ready == 0:
        message = "no controller is ready: nothing can be made or elected"
        message = _append_problem(message, found.pod_problems.get(CONTROLLER))
        return ready_condition(False, "ControllersNotReady", message)
    if serving and {pod.broker for pod in found.pods if pod.ready} <= set(found.settings.unknown):
        message = f"the pods of {serving} brokers are ready, and none of them answers the operator"
        return ready_condition(
            None, "NoAnswer", f"{message}: {found.unreachable}" if found.unreachable else message
        )
    if serving and found.adoption.is_shut:
        return ready_condition(False, "Adopting", _describe_adoption(found))
    # Brokers that are to go serve until they are empty.
    surplus = f"; {wanted} wanted once the others are empty" if present > wanted else ""
    if serving >= present:
        if found.roll.left:
            message = f"all brokers serve; {len(found.roll.left)} are to be restarted{surplus}"
            return ready_condition(True, "Rolling", message)
        serve = "the broker serves" if present == 1 else f"all {present} brokers serve"
        return ready_condition(True, "Serving", serve + surplus)
    is_last_step = found.last_step is not None and found.last_step.problem is None
    if (found.roll.left or is_last_step) and serving >= present - 1:
        message = f"{serving} of {present} brokers serve while one restarts{surplus}"
        return ready_condition(True, "Rolling", message)
    reasons = [
        f"broker {pod.broker}: {pod.problem or ('stopping' if pod.deleting else 'starting')}"
        for pod in found.pods
        if not pod.ready
    ]
    message = (
        f"{serving} of {present} brokers serve; "
        f"{format_names(tuple(reasons)) or found.pod_problems.get(BROKER) or 'their pods are being made'}{surplus}"
    )
    return ready_condition(False, "BrokersNotReady", message)


def _describe_adoption(found: Findings) -> str:
    if found.adoption.owed:
        return f"an earlier Cluster has left {found.adoption.owed}; listeners for clients open once that is deleted"
    return "what an earlier Cluster has left is deleted; brokers open their listeners for clients"


def _append_problem(message: str, problem: str | None) -> str:
    return f"{message}. {problem}" if problem else message


def _rolling_condition(found: Findings) -> Condition:
    roll, servers, unknown = found.roll, found.server_roll, found.settings.unknown
    if servers.left:
        parts = [f"ZooKeeper servers to be restarted: {format_names(servers.left)}"]
        if servers.replace is not None:
            parts.append(f"now {servers.replace.name}: {servers.why}")
        if servers.waiting:
            parts.append(f"waiting: {servers.waiting}")
        return condition(ROLLING, True, "Waiting" if servers.waiting else "Restarting", ". ".join(parts))
    if not roll.left and found.pending_set is not None:
        message = f"Kubernetes has not taken up the newest form of {found.pending_set} yet"
        return condition(ROLLING, None, "Pending", message)
    if not roll.left and found.last_step is not None:
        return condition(ROLLING, True, "Restarting", f"all have been replaced; {found.last_step}")
    return _broker_roll_condition(roll, unknown)


def _broker_roll_condition(roll: Roll, unknown: tuple[int, ...]) -> Condition:
    silent = format_names(tuple(str(broker) for broker in unknown))
    if not roll.left and unknown:
        message = (
            f"whether these must be restarted is not known, as they do not report their settings: {silent}"
        )
        return condition(ROLLING, None, "NoAnswer", message)
    if not roll.left:
        return condition(ROLLING, False, "Current", "all brokers are as they are wanted")
    parts = [f"to be restarted: {format_names(tuple(str(broker) for broker in roll.left))}"]
    if roll.replace is not None:
        parts.append(f"now broker {roll.replace.broker}: {roll.why}")
    if roll.waiting:
        parts.append(f"waiting: {roll.waiting}")
    if unknown:
        parts.append(f"not known, as they do not report their settings: {silent}")
    if roll.never_safe:
        parts.append(
            "away while their broker restarts, since they need all of their replicas in sync: "
            f"{format_names(roll.never_safe)}; give them a replica more, or lower min.insync.replicas"
        )
    return condition(ROLLING, True, "Waiting" if roll.waiting else "Restarting", ". ".join(parts))


def _scaling_condition(found: Findings) -> Condition:
    if found.move.problem:
        return condition(SCALING, False, "Blocked", found.move.problem)
    movement = found.move.movement
    assert movement is not None
    which = format_names(tuple(str(broker) for broker in movement.brokers))
    what = "emptied" if movement.reason == Reason.DOWN else "filled"
    return condition(
        SCALING,
        True,
        movement.reason,
        f"brokers {which} are being {what}: {movement.left} of {movement.total} partitions left",
    )
