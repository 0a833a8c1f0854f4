"""How a pod of the operator logs in at a cluster: the Secret or ConfigMap with client.properties that it mounts."""

from __future__ import annotations

from dataclasses import dataclass

from odradek_operator.desired.names import Json
from odradek_operator.desired.security import secret_volume


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLogin:
    """The Secret or the ConfigMap to mount. Pods are replaced when `version` changes."""

    secret: str | None = None
    config_map: str | None = None
    version: str = ""

    @property
    def text(self) -> str:
        """A text that changes with it, for the digest in a pod's template."""
        return f"{self.secret} {self.config_map} {self.version}"


def mount_login(name: str, login: ClusterLogin) -> Json:
    """The volume `name` with the login's files."""
    if login.secret is not None:
        return secret_volume(name, login.secret)
    return {"name": name, "configMap": {"name": login.config_map}}
