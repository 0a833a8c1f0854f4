"""Evidence of a failed test: resources, events, and the last lines of every pod."""

from __future__ import annotations

import subprocess

_OWN_KINDS = (
    "clusters.odradek.io,topics.odradek.io,consumergroups.odradek.io,users.odradek.io,mirrors.odradek.io"
)
_KINDS = f"{_OWN_KINDS},statefulsets,deployments,pods,services,pvc"


def collected(namespaces: list[str]) -> str:
    """Text for a person; a part that cannot be had says why."""
    parts: list[str] = []
    for namespace in namespaces:
        parts.append(_said(namespace, "get", _KINDS, "-o", "wide"))
        parts.append(
            _said(
                namespace,
                "get",
                _OWN_KINDS,
                "-o",
                "yaml",
            )
        )
        parts.append(_said(namespace, "get", "events", "--sort-by=.lastTimestamp")[-6000:])
        for pod in _said(namespace, "get", "pods", "-o", "name", titled=False).split():
            parts.append(_said(namespace, "logs", pod, "--all-containers", "--tail=60"))
            parts.append(
                _said(namespace, "logs", pod, "--all-containers", "--tail=30", "--previous", quiet=True)
            )
    return "\n".join(part for part in parts if part)


def _said(namespace: str, *arguments: str, titled: bool = True, quiet: bool = False) -> str:
    command = ["kubectl", "--namespace", namespace, *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        return f"## {' '.join(command)}: no answer"
    if quiet and done.returncode != 0:
        return ""
    title = f"## {' '.join(command)}\n" if titled else ""
    return f"{title}{done.stdout}{done.stderr}"
