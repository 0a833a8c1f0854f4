"""The controllers: a Deployment, as they keep nothing. One is active, the others stand by."""

from __future__ import annotations

from odradek.foundation.settings.broker_settings import find_setting
from odradek.foundation.settings.declaration import Scope
from odradek_operator.desired import scripts
from odradek_operator.desired.names import CONTROLLER, CONTROLLER_PORT, HTTP_PORT, Context, Json
from odradek_operator.desired.pods import SCRATCH, digest, field_reference, pod_template
from odradek_operator.desired.security import controller_mounts, controller_volumes, secret_volume
from odradek_operator.desired.servers import scrape_annotations, server
from odradek_operator.desired.settings import controller_settings, properties
from odradek_operator.desired.zookeeper_access import access_annotations, broker_login_volumes, login_mounts

_GRACE_SECONDS = 30


def controller_config_map(context: Context) -> Json:
    """Controllers' settings, and the script that reads them."""
    return context.manifest(
        "v1", "ConfigMap", context.object_name(CONTROLLER), CONTROLLER, data=_files(context)
    )


def controller_deployment(context: Context) -> Json:
    """The Deployment. A new controller stands by before an old one goes, so a roll costs an election and no more.

    Settings that can change only with a start are in the template too; the others reach controllers through the
    registry.
    """
    wanted, pod = context.spec.controllers, context.spec.controllers.pod
    controller = server(
        context,
        CONTROLLER,
        resources=wanted.resources,
        pod=pod,
        ports={"controller": CONTROLLER_PORT, "http": HTTP_PORT},
        env={"POD_NAME": field_reference("metadata.name"), "POD_IP": field_reference("status.podIP")},
        mounts={},
        start_seconds_max=120,
        fixed_mounts={**controller_mounts(context), **login_mounts(context)},
    )
    template = pod_template(
        context,
        CONTROLLER,
        pod=pod,
        containers=[controller],
        scratch={SCRATCH: "64Mi"},
        secrets=[
            *(secret_volume(name, secret) for name, secret in controller_volumes(context).items()),
            *broker_login_volumes(context),
        ],
        grace_seconds=_GRACE_SECONDS,
        annotations={
            "odradek.io/settings": _lasting_settings(context),
            **access_annotations(context),
            **scrape_annotations(context),
        },
    )
    return context.manifest(
        "apps/v1",
        "Deployment",
        context.object_name(CONTROLLER),
        CONTROLLER,
        spec={
            "replicas": wanted.replicas,
            "revisionHistoryLimit": 3,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "selector": {"matchLabels": context.selector(CONTROLLER)},
            "template": template,
        },
    )


def _lasting_settings(context: Context) -> str:
    lasting = {
        key: value
        for key, value in controller_settings(context).items()
        if (setting := find_setting(key)) is None or setting.scope is not Scope.CLUSTER_WIDE
    }
    return digest(properties(lasting) + scripts.start_controller(context))


def _files(context: Context) -> dict[str, str]:
    return {
        "controller.properties": properties(controller_settings(context)),
        "start": scripts.start_controller(context),
    }
