"""Installing with Helm, by the commands that the README gives to its readers.

Left out of those commands, because a reader has it otherwise: which images there are (`values/`).
"""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from e2e.boot import CHECKOUT, IMAGE_TAG, IMAGES

VALUES = Path(__file__).parent / "values"
OPERATOR_RELEASE, OPERATOR_NAMESPACE = "odradek-operator", "odradek-system"
RELEASE, NAMESPACE = "demo", "demo"
BOOTSTRAP = "demo-bootstrap:9092"
_OPERATOR_CHART, _CLUSTER_CHART = "helm/odradek-operator", "helm/odradek"


class HelmError(Exception):
    """Helm refused; the text is what it said."""


def readme_commands() -> list[str]:
    """The `helm install` commands of the README, in their order: the operator's and a cluster's."""
    lines = (CHECKOUT / "README.md").read_text().replace("\\\n", " ").splitlines()
    found = [line.strip() for line in lines if line.strip().startswith("helm install ")]
    assert len(found) == 2, (
        f"the README is to install the operator, then a cluster, with two commands: {found}"
    )
    return found


def install_operator() -> None:
    """The README's first command; it returns when all is made, as the next one need not wait for the operator."""
    _helm(*shlex.split(readme_commands()[0])[1:], *_images("operator.yaml"))


def install_cluster(*more: str) -> None:
    """The README's second command; it returns when the resources are made, not when the cluster is ready."""
    _helm(*shlex.split(readme_commands()[1])[1:], *_images("cluster.yaml"), *more)


def upgrade_operator(*more: str) -> None:
    """A new revision of the operator's release."""
    where = ["--namespace", OPERATOR_NAMESPACE, "--reuse-values", "--wait", "--timeout", "3m"]
    _helm("upgrade", OPERATOR_RELEASE, _OPERATOR_CHART, *where, *more)


def upgrade_cluster(*more: str) -> None:
    """A new revision of the cluster's release; what was set before stays."""
    _helm("upgrade", RELEASE, _CLUSTER_CHART, "--namespace", NAMESPACE, "--reuse-values", *more)


def uninstall(release: str, namespace: str) -> None:
    """Take a release away; returns when Helm has deleted what it made."""
    _helm("uninstall", release, "--namespace", namespace, "--ignore-not-found", "--wait", "--timeout", "3m")


def helm_test() -> str:
    """What the chart's own test says. Its pod stays only when it failed, so logs cannot be asked for."""
    return _helm("test", RELEASE, "--namespace", NAMESPACE, "--timeout", "3m")


def _images(values: str) -> Sequence[str]:
    registry, _, path = IMAGES.rpartition("/")
    if (IMAGES, IMAGE_TAG) == ("localhost/odradek", "dev"):
        return ["--values", str(VALUES / values)]
    named = {"operator.yaml": ("image", "brokerImage"), "cluster.yaml": ("tests.image",)}[values]
    targets = {"image": "operator", "brokerImage": "broker", "tests.image": "broker"}
    sets = [
        f"{key}.{part}={json.dumps(value)[1:-1]}"
        for key in named
        for part, value in (
            ("registry", registry),
            ("repository", f"{path}/{targets[key]}"),
            ("tag", IMAGE_TAG),
        )
    ]
    flags = ["--values", str(VALUES / values)] if values == "cluster.yaml" else []
    return [*flags, *(part for one in sets for part in ("--set-string", one))]


def _helm(*arguments: str) -> str:
    done = subprocess.run(
        ["helm", *arguments], capture_output=True, text=True, timeout=300, check=False, cwd=CHECKOUT
    )
    if done.returncode != 0:
        raise HelmError(f"helm {' '.join(arguments)}: {done.stderr.strip()}\n{done.stdout[-2000:]}")
    return done.stdout
