"""The controllers: a Deployment, as they keep nothing. One is active, the others stand by."""

from __future__ import annotations

import hashlib

from odradek.foundation.setting_types import Scope
from odradek.foundation.settings import find_setting
from odradek_operator.desired import scripts
from odradek_operator.desired.brokers import scrape_annotations
from odradek_operator.desired.names import (
    CONTROLLER,
    CONTROLLER_PORT,
    HTTP_PORT,
    RESTART_ANNOTATION,
    Context,
    Json,
)
from odradek_operator.desired.pods import container, field, http_probes, pod_template
from odradek_operator.desired.settings import controller_settings, properties

_GRACE_SECONDS = 30


def controller_config_map(context: Context) -> Json:
    """Controllers' settings, and the script that reads them."""
    return context.manifest("v1", "ConfigMap", context.called(CONTROLLER), CONTROLLER, data=_files(context))


def controller_deployment(context: Context) -> Json:
    """The Deployment. A new controller stands by before an old one goes, so a roll costs an election and no more.

    Settings that can change only with a start are in the template too; the others reach controllers through the
    registry.
    """
    wanted, pod = context.spec.controllers, context.spec.controllers.pod
    controller = container(
        CONTROLLER,
        image=context.image,
        pull=str(context.spec.image_pull_policy),
        resources=wanted.resources,
        pod=pod,
        command=["/bin/sh", f"{scripts.SETTINGS_FOLDER}/start"],
        ports=[
            {"name": "controller", "containerPort": CONTROLLER_PORT},
            {"name": "http", "containerPort": HTTP_PORT},
        ],
        env=[
            {"name": "POD_NAME", "valueFrom": field("metadata.name")},
            {"name": "POD_IP", "valueFrom": field("status.podIP")},
        ],
        volumeMounts=[
            {"name": "settings", "mountPath": scripts.SETTINGS_FOLDER, "readOnly": True},
            {"name": "scratch", "mountPath": "/tmp"},
        ],
        **http_probes(HTTP_PORT, start_seconds_max=120),
    )
    annotations = {"odradek.io/settings": _digest(context)}
    if context.restart:
        annotations[RESTART_ANNOTATION] = context.restart
    template = pod_template(
        context,
        CONTROLLER,
        pod=pod,
        containers=[controller],
        volumes=[
            {"name": "settings", "configMap": {"name": context.called(CONTROLLER)}},
            {"name": "scratch", "emptyDir": {"sizeLimit": "64Mi"}},
        ],
        grace_seconds=_GRACE_SECONDS,
        annotations=annotations | scrape_annotations(context),
    )
    return context.manifest(
        "apps/v1",
        "Deployment",
        context.called(CONTROLLER),
        CONTROLLER,
        spec={
            "replicas": wanted.replicas,
            "revisionHistoryLimit": 3,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "selector": {"matchLabels": context.selector(CONTROLLER)},
            "template": template,
        },
    )


def _digest(context: Context) -> str:
    lasting = {
        key: value
        for key, value in controller_settings(context).items()
        if (setting := find_setting(key)) is None or setting.scope is Scope.READ_ONLY
    }
    return hashlib.sha256((properties(lasting) + scripts.start_controller()).encode()).hexdigest()[:16]


def _files(context: Context) -> dict[str, str]:
    return {
        "controller.properties": properties(controller_settings(context)),
        "start": scripts.start_controller(),
    }
