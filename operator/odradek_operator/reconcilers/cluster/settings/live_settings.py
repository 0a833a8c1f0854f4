"""The answers of running brokers: their settings, altered where that needs no restart, and their full disks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from odradek.foundation.errors import OdradekError
from odradek.foundation.settings.broker_settings import Settings
from odradek.foundation.settings.processes import process_entries
from odradek_operator.desired import scripts, settings
from odradek_operator.gateways.cluster_admin import InForce
from odradek_operator.reconcilers.cluster import facts
from odradek_operator.reconcilers.cluster.restart_words import format_names
from odradek_operator.reconcilers.cluster.run import ReconcileRun
from odradek_operator.reconcilers.cluster.settings import addresses
from odradek_operator.reconcilers.cluster.settings.settings_plan import SettingsPlan, plan_settings

_OF_PROCESSES: Final = ("listeners", "advertised.listeners", "listener.security.protocol.map", "log.dirs")


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsFound:
    """The result for brokers' settings. `unknown` are the brokers that serve and do not answer about theirs."""

    plan: SettingsPlan = field(default_factory=SettingsPlan)
    unknown: tuple[int, ...] = ()
    cluster_id: str | None = None
    problem: str | None = None
    unreachable: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DisksFound:
    """A full directory of each broker that has one, or why brokers could not be asked."""

    full_directories: Mapping[int, str] = field(default_factory=dict)
    unreachable: str | None = None


async def settle_settings(run: ReconcileRun, pods: Sequence[facts.BrokerPod]) -> SettingsFound:
    """Alter what brokers take while they run, and find the brokers that must restart for the rest."""
    serving = [pod for pod in pods if pod.ready]
    # Together: a silent broker delays no other.
    answers = await asyncio.gather(*(_read_settings(run, pod.broker) for pod in serving))
    in_force: dict[int, Mapping[str, InForce]] = {}
    cluster_id = unreachable = None
    for pod, answer in zip(serving, answers, strict=True):
        if isinstance(answer, OdradekError):
            unreachable = f"broker {pod.broker} does not report its settings to the operator: {answer}"
        else:
            in_force[pod.broker] = answer
    try:
        if in_force:
            cluster_id = await run.admin.read_cluster_id(run.context.own_bootstrap)
    except OdradekError as failure:
        unreachable = f"brokers do not answer the operator: {failure}"
    wanted = {pod.broker: _file_of(run, pod) for pod in serving}
    plan = plan_settings(wanted, in_force, live=run.before.live_settings)
    return SettingsFound(
        plan=plan,
        unknown=tuple(pod.broker for pod in serving if pod.broker not in in_force),
        cluster_id=cluster_id,
        problem=await _alter(run, plan) or _describe_covered(plan),
        unreachable=unreachable,
    )


async def _alter(run: ReconcileRun, plan: SettingsPlan) -> str | None:
    """Alter common settings; the answer is what went wrong."""
    if not plan.alter:
        return None
    try:
        await run.admin.set_defaults(run.context.own_bootstrap, plan.alter)
    except OdradekError as failure:
        return f"{', '.join(plan.alter)} could not be altered: {failure}"
    altered = ", ".join(
        f"{key} back to its default" if value is None else f"{key}={value}"
        for key, value in plan.alter.items()
    )
    await run.report_event("SettingsAltered", f"without a restart: {altered}")
    return None


def _describe_covered(plan: SettingsPlan) -> str | None:
    """The advice about a broker whose own values cover those of the Cluster."""
    if not plan.covered:
        return None
    broker, keys = list(plan.covered.items())[-1]
    return (
        f"broker {broker} has values of its own for {format_names(keys)}, which cover what the Cluster says; "
        f"take them back: odradek configs unset broker {broker} {' '.join(keys)}"
    )


async def read_disks(
    run: ReconcileRun, pods: Sequence[facts.BrokerPod], *, unknown: Sequence[int]
) -> DisksFound:
    """Find the brokers whose disks are full. Brokers that are `unknown`, since they do not answer, are left out."""
    serving = [pod.broker for pod in pods if pod.ready and pod.broker not in unknown]
    if not serving:
        return DisksFound()
    try:
        found = await run.admin.find_full_directories(run.context.own_bootstrap, serving)
    except OdradekError as failure:
        return DisksFound(unreachable=f"brokers do not report their disks to the operator: {failure}")
    return DisksFound(full_directories=found)


async def _read_settings(run: ReconcileRun, broker: int) -> Mapping[str, InForce] | OdradekError:
    try:
        return await run.admin.read_settings(run.context.own_bootstrap, broker)
    except OdradekError as failure:
        return failure


def _file_of(run: ReconcileRun, pod: facts.BrokerPod) -> Mapping[str, str]:
    file = settings.broker_settings(run.context)
    advertised = scripts.advertised_listeners(run.context, pod.broker)
    node_address = pod.node_address or ""
    host = f"[{node_address}]" if ":" in node_address else node_address
    file |= {"advertised.listeners": advertised.replace(addresses.NODE_IP, host)}
    processes = run.context.processes_of(pod.broker)
    if processes == 1:
        return file
    # The first broker of the pod answers for it, at ports of its own.
    own = {key: file[key] for key in _OF_PROCESSES} | {"broker.processes": str(processes)}
    moved = process_entries(Settings(own), 1)
    return file | {key: moved[key] for key in _OF_PROCESSES}
