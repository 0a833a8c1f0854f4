"""How the API server is reached: as a pod by its service account, or as a person by their kubeconfig.

kopf reads both; its own watches and our gateway use the same.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from typing import Final

import kopf
from yaml import YAMLError

from odradek_operator.gateways.kubernetes_http import Access

logger = logging.getLogger(__name__)

# A service account's token is replaced well before it ends; so often it is read again.
_TOKEN_AGE_SECONDS_MAX: Final = 60.0


class NoAccess(Exception):
    """Neither a service account nor a kubeconfig is there, or it cannot be read."""


def log_in() -> kopf.ConnectionInfo:
    """Where the API server is and who we are there. Raises NoAccess."""
    settings = kopf.OperatorSettings()
    info = kopf.login_with_service_account(logger=logger, settings=settings)
    try:
        info = info or kopf.login_with_kubeconfig(logger=logger, settings=settings)
    except (
        OSError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        YAMLError,
        kopf.LoginError,
    ) as failure:
        named = os.environ.get("KUBECONFIG") or "~/.kube/config"
        reason = " ".join(f"{type(failure).__name__}: {failure}".split())
        raise NoAccess(
            f"the kubeconfig {named} cannot be used ({reason}); name another in KUBECONFIG"
        ) from failure
    if info is None:
        raise NoAccess(
            "no Kubernetes API server is known: run in a pod with a service account, or name a kubeconfig in KUBECONFIG"
        )
    return info


def access() -> Access:
    """The same for our gateway. Raises NoAccess."""
    info = log_in()
    tls = info.as_ssl_context() if info.server.startswith("https:") else None
    return Access(server=info.server.rstrip("/"), tls=tls, headers=_Headers(info))


class _Headers:
    """The headers that say who we are, read again from time to time."""

    def __init__(self, info: kopf.ConnectionInfo) -> None:
        self._headers: Mapping[str, str] = info.as_http_headers()
        self._at = time.monotonic()

    def __call__(self) -> Mapping[str, str]:
        if time.monotonic() - self._at > _TOKEN_AGE_SECONDS_MAX:
            self._headers = log_in().as_http_headers()
            self._at = time.monotonic()
        return self._headers


def current_namespace(info: kopf.ConnectionInfo) -> str:
    """The namespace that a command without --namespace means."""
    return info.default_namespace or "default"
