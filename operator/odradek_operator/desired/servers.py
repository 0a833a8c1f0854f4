"""The parts that brokers and controllers share: their start, their probes and their measures."""

from __future__ import annotations

from collections.abc import Mapping

from odradek_operator.desired.names import HTTP_PORT, Context, Json
from odradek_operator.desired.pods import SCRATCH, SETTINGS, container
from odradek_operator.desired.probes import http_probes
from odradek_operator.desired.scripts import SETTINGS_FOLDER
from odradek_operator.desired.security import is_secured
from odradek_operator.resources.pods import Pod, Resources


def server(
    context: Context,
    component: str,
    *,
    resources: Resources,
    pod: Pod,
    ports: Mapping[str, int],
    env: Mapping[str, str | Json],
    mounts: Mapping[str, str],
    start_seconds_max: int,
    ready_path: str = "/readyz",
    fixed_mounts: Mapping[str, str] | None = None,
) -> Json:
    """A broker's or a controller's container. It answers /healthz before it is ready: a long start is alive."""
    return container(
        context,
        component,
        image=context.image,
        resources=resources,
        pod=pod,
        command=["/bin/sh", f"{SETTINGS_FOLDER}/start"],
        ports=ports,
        env=env,
        mounts={**mounts, SETTINGS: SETTINGS_FOLDER, SCRATCH: "/tmp"},
        fixed_mounts=fixed_mounts,
        **http_probes(
            HTTP_PORT,
            ready_path=ready_path,
            start_seconds_max=start_seconds_max,
            has_tls=is_secured(context.spec),
        ),
    )


def scrape_annotations(context: Context) -> dict[str, str]:
    """Return the annotations by which a Prometheus finds measures; empty where the Cluster has them off."""
    if not context.spec.metrics.annotations:
        return {}
    return {
        "prometheus.io/scrape": "true",
        **({"prometheus.io/scheme": "https"} if is_secured(context.spec) else {}),
        "prometheus.io/port": str(HTTP_PORT),
        "prometheus.io/path": "/metrics",
    }
