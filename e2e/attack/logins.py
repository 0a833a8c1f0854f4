"""Logins of Users, tried from a pod that has none of its own."""

from __future__ import annotations

from e2e.attack.field import Field
from e2e.kube import Kube


def login_of(kube: Kube, name: str) -> tuple[str, str]:
    """The properties of a User's Secret and the authority that it trusts, in base64."""
    data = (kube.get("secret", name) or {}).get("data", {})
    return data["client.properties"], data["ca.crt"]


def said_to(field: Field, properties: str, authority: str) -> str:
    """`yes` to a login by the properties of its Secret, `no` where it is refused, or why there was no answer."""
    script = (
        "mkdir -p /tmp/user && echo $1 | base64 -d | sed s#/etc/user#/tmp/user#g > /tmp/user/client.properties"
        " && echo $2 | base64 -d > /tmp/user/ca.crt"
        " && odradek --command-config /tmp/user/client.properties topics list >/dev/null 2>/tmp/user/said"
        " && echo yes || { grep -qi 'auth' /tmp/user/said && echo no || cat /tmp/user/said; }"
    )
    return field.in_admin("sh", "-c", script, "sh", properties, authority).strip()
