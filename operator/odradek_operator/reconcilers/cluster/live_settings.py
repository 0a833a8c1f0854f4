"""What brokers say while they run: their settings, altered where that needs no restart, and their full disks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from odradek.foundation.errors import OdradekError
from odradek_operator.desired import scripts, settings
from odradek_operator.gateways.cluster_admin import InForce
from odradek_operator.reconcilers.cluster import addresses, facts, rolling
from odradek_operator.reconcilers.cluster.look import Look
from odradek_operator.reconcilers.cluster.settings import plan_settings


async def settle_settings(look: Look) -> None:
    """Alter what brokers take while they run, and learn who must be restarted for the rest."""
    serving = [pod for pod in look.pods if pod.ready]
    # Together: one that is silent holds up neither the others nor what is known of them.
    asked = await asyncio.gather(*(_settings_of(look, pod.broker) for pod in serving))
    in_force = {pod.broker: told for pod, told in zip(serving, asked, strict=True) if told is not None}
    look.unknown = tuple(pod.broker for pod in serving if pod.broker not in in_force)
    try:
        if in_force:
            look.cluster_id = await look.admin.cluster_id(look.context.bootstrap)
    except OdradekError as failure:
        look.unreachable = f"brokers do not answer the operator: {failure}"
    wanted = {pod.broker: _file_of(look, pod) for pod in serving}
    look.settings = plan_settings(wanted, in_force, live=look.before.live_settings)
    for broker, keys in look.settings.covered.items():
        look.settings_problem = (
            f"broker {broker} has values of its own for {rolling.named(keys)}, which cover what the Cluster says; "
            f"take them back: odradek configs unset broker {broker} {' '.join(keys)}"
        )
    if not look.settings.alter:
        return
    try:
        await look.admin.set_defaults(look.context.bootstrap, look.settings.alter)
        altered = ", ".join(
            f"{key} back to its default" if value is None else f"{key}={value}"
            for key, value in look.settings.alter.items()
        )
        await look.environment.report_event(look.body, "SettingsAltered", f"without a restart: {altered}")
    except OdradekError as failure:
        look.settings_problem = f"{', '.join(look.settings.alter)} could not be altered: {failure}"


async def read_disks(look: Look) -> None:
    """Find the brokers whose disks are full. One that does not answer is left out: `unknown` names it."""
    serving = [pod.broker for pod in look.pods if pod.ready and pod.broker not in look.unknown]
    if not serving:
        return
    try:
        look.full_directories = await look.admin.full_directories(look.context.bootstrap, serving)
    except OdradekError as failure:
        look.unreachable = f"brokers do not tell the operator of their disks: {failure}"


async def _settings_of(look: Look, broker: int) -> Mapping[str, InForce] | None:
    try:
        return await look.admin.settings(look.context.bootstrap, broker)
    except OdradekError as failure:
        look.unreachable = f"broker {broker} does not tell the operator its settings: {failure}"
        return None


def _file_of(look: Look, pod: facts.BrokerPod) -> Mapping[str, str]:
    file = settings.broker_settings(look.context)
    told = scripts.advertised(look.context, pod.broker)
    node_address = pod.node_address or ""
    host = f"[{node_address}]" if ":" in node_address else node_address
    return file | {"advertised.listeners": told.replace(addresses.NODE_IP, host)}
