"""The pod of a Cluster's console: its manifests, and its start in folders of a test."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from odradek.foundation.settings.file import parse_properties
from odradek_operator.desired.cluster_logins import ClusterLogin
from odradek_operator.desired.console import console_manifests
from odradek_operator.desired.console_files import START, ConsoleFiles, ConsoleOther
from odradek_operator.gateways.kubernetes import Json
from tests.operator.cluster.test_desired import context
from tests.support.broker_process import CHECKOUT

BINDING = ClusterLogin(config_map="events-binding")
PASSWORDS = {"authentication": {"type": "scram-sha-512"}}


def desired(
    console: Json, *, versions: dict[str, str] | None = None, user_version: str = "7", **spec: Any
) -> dict[str, Json]:
    """The console's manifests by kind. Users log in by the Secret viewer-secret."""
    of = context(console=console, **spec)
    assert of.spec.console is not None
    others = []
    for one in of.spec.console.clusters:
        login = None if one.client_secret is None else ClusterLogin(secret=one.client_secret)
        if one.cluster is not None:
            login = ClusterLogin(secret="viewer-secret", version=user_version)
        others.append(ConsoleOther(connection=one, login=login))
    files = ConsoleFiles(login=BINDING, others=tuple(others), versions=versions or {})
    return {str(one["kind"]): one for one in console_manifests(of, of.spec.console, files)}


def pod_of(manifests: dict[str, Json]) -> Json:
    spec: Json = manifests["Deployment"]["spec"]["template"]["spec"]
    return spec


def command_of(manifests: dict[str, Json]) -> list[str]:
    (shown,) = pod_of(manifests)["containers"]
    return list(shown["command"])


def file_of(manifests: dict[str, Json], name: str) -> dict[str, str]:
    return parse_properties(manifests["ConfigMap"]["data"][name])


def lay_out(folder: Path, manifests: dict[str, Json], mounted: dict[str, str]) -> str:
    """What a pod finds in its folders, and the program for them. `mounted` are files by path below `folder`."""
    for name in ("settings", "clusters", "registries", "together"):
        (folder / name).mkdir()
    for name, text in manifests["ConfigMap"]["data"].items():
        (folder / "settings" / name).write_text(text)
    for path, text in mounted.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    program = START
    for there, here in (
        ("/etc/odradek-clusters", "clusters"),
        ("/etc/odradek-registries", "registries"),
        ("/run/odradek-clusters", "together"),
        ("/etc/odradek", "settings"),
    ):
        program = program.replace(f'"{there}"', f'"{folder / here}"')
    return program


@contextmanager
def running_console(folder: Path, manifests: dict[str, Json], mounted: dict[str, str]) -> Iterator[str]:
    """The URL of a real console, started as in a pod, at a free port of this machine."""
    program = lay_out(folder, manifests, mounted)
    words = command_of(manifests)[2:]
    replaced = {"8088": "0", "": "127.0.0.1"}
    words = [
        replaced.get(one, one).replace("/run/odradek-clusters", str(folder / "together")) for one in words
    ]
    words = [one.replace("/etc/odradek-provider/client-secret", str(folder / "provider")) for one in words]
    words = [one.replace("/etc/odradek/", f"{folder}/settings/") for one in words]
    command = [sys.executable, "-c", program, sys.executable, "-m", *words]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT / "broker")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[2]
        finally:
            process.kill()
