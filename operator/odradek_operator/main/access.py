"""The access to the API server: as a pod by its service account, or as a person by their kubeconfig.

The `kubernetes` package reads both, with kubeconfig's credential plugins and OIDC; kopf's watches and our gateway use
the same. Its blocking loader is used, in a thread. Unlike the asyncio one it gives plugins the cluster's data, and can
check an OIDC issuer's certificate (docs/design/0006).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import kopf
from kubernetes import client, config
from kubernetes.aio import client as aio_client
from kubernetes.config import incluster_config
from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger

from odradek_operator.gateways.kubernetes import NoAccess

logger = logging.getLogger(__name__)

TOKEN_LOOK_SECONDS: Final = 10.0
"""So often the package is asked whether the token is to be replaced: a file is read, or a plugin runs."""
LOAD_SECONDS_MAX: Final = 30.0
"""A credential plugin that takes longer is not waited for."""
_TOKEN: Final = "BearerToken"
_TRANSPORT: Final = ("host", "ssl_ca_cert", "cert_file", "key_file", "verify_ssl", "tls_server_name")


@dataclass(frozen=True, slots=True)
class LogIn:
    """The configuration that the package has read. `configuration` renews its own token when it is asked for it."""

    configuration: Any
    namespace: str = "default"
    proxy: str | None = None
    expires_at: datetime | None = None

    def read_authorization(self) -> str | None:
        """The value of the header, renewed when it is due. It may read a file, run a plugin, ask an issuer."""
        header = self.configuration.get_api_key_with_prefix(_TOKEN)
        return header.strip() if header else None


def load() -> LogIn:
    """Read the service account, or else the kubeconfig. Blocks while a plugin runs. Raises NoAccess."""
    configuration = client.Configuration()
    try:
        config.load_incluster_config(client_configuration=configuration)
    except config.ConfigException as not_a_pod:
        paths = os.environ.get("KUBECONFIG") or "~/.kube/config"
        if not os.environ.get("KUBECONFIG") and not Path(paths).expanduser().exists():
            raise NoAccess(
                "no Kubernetes API server is known: run in a pod with a service account, or name a kubeconfig in "
                f"KUBECONFIG ({not_a_pod})"
            ) from not_a_pod
        return _read_kubeconfig(paths, configuration)
    except OSError as failure:
        raise NoAccess(f"the service account cannot be read: {failure}") from failure
    namespace = Path(incluster_config.SERVICE_TOKEN_FILENAME).with_name("namespace")
    return LogIn(configuration, namespace.read_text().strip() if namespace.exists() else "default")


def _read_kubeconfig(paths: str, configuration: Any) -> LogIn:
    # The package, yaml and what they read fail in many ways: each is a kubeconfig that cannot be used.
    try:
        merged = KubeConfigMerger(paths)
        loader = KubeConfigLoader(merged.config, config_base_path=None, config_persister=merged.save_changes)
        context = loader.current_context["context"]
        users = merged.config["users"]
        named = users.get_with_name(context["user"]).value["user"] if context.get("user") else None
        user = named or {}
        _check_issuer(user, paths)
        loader.load_and_set(configuration)
    except NoAccess:
        raise
    except Exception as failure:
        reason = " ".join(f"{type(failure).__name__}: {failure}".split())
        raise NoAccess(
            f"the kubeconfig {paths} cannot be used ({reason}); name another in KUBECONFIG"
        ) from failure
    if "exec" in user and not hasattr(loader, "token") and not configuration.cert_file:
        raise NoAccess(
            f"the credential plugin of the kubeconfig {paths} gave nothing; its error is logged above"
        )
    return LogIn(
        configuration,
        namespace=context.get("namespace") or "default",
        proxy=getattr(loader, "proxy", None),
        expires_at=getattr(loader, "expiry", None),
    )


def _check_issuer(user: Mapping[str, Any], paths: str) -> None:
    """Raises NoAccess for an OIDC user whose issuer's certificate the package would not check."""
    provider = user.get("auth-provider") or {}
    settings = provider.get("config") or {}
    authorities = ("idp-certificate-authority", "idp-certificate-authority-data")
    if provider.get("name") == "oidc" and not any(settings.get(name) for name in authorities):
        raise NoAccess(
            f"the kubeconfig {paths} names no certificate authority of its OIDC issuer: set idp-certificate-authority, "
            "for public issuers to the system's bundle, or use a credential plugin"
        )


def log_in() -> kopf.ConnectionInfo:
    """The same for kopf, which calls it in a thread, again after each 401. Raises NoAccess."""
    found = load()
    read = found.configuration
    scheme, _, token = (found.read_authorization() or "").partition(" ")
    return kopf.ConnectionInfo(
        server=read.host,
        ca_path=read.ssl_ca_cert,
        insecure=not read.verify_ssl,
        scheme=scheme or None,
        token=token or None,
        certificate_path=read.cert_file,
        private_key_path=read.key_file,
        default_namespace=found.namespace,
        proxy_url=found.proxy,
        trust_env=True,  # as the package's client has it, and kubectl
        expiration=found.expires_at,
    )


async def configure() -> aio_client.Configuration:
    """The same for our gateway. Raises NoAccess."""
    loading = asyncio.ensure_future(asyncio.to_thread(load))
    done, _ = await asyncio.wait({loading}, timeout=LOAD_SECONDS_MAX)
    if not done:
        raise NoAccess(f"the kubeconfig's credential plugin did not end within {LOAD_SECONDS_MAX:.0f} s")
    found = loading.result()
    configuration = aio_client.Configuration()
    for name in _TRANSPORT:
        setattr(configuration, name, getattr(found.configuration, name))
    configuration.proxy = found.proxy
    token = await asyncio.to_thread(found.read_authorization)
    if token is not None:
        configuration.api_key[_TOKEN] = token
        configuration.refresh_api_key_hook = _Renewal(found)
    return configuration


class _Renewal:
    """Called before each request; replaces the token from time to time. One thread at a time asks for it."""

    def __init__(self, found: LogIn) -> None:
        self._found = found
        self._asked_at = asyncio.get_running_loop().time()
        self._asking: asyncio.Future[str | None] | None = None

    async def __call__(self, configuration: aio_client.Configuration) -> None:
        now = asyncio.get_running_loop().time()
        if self._asking is None:
            if now - self._asked_at < TOKEN_LOOK_SECONDS:
                return
            self._asked_at = now
            self._asking = asyncio.ensure_future(asyncio.to_thread(self._found.read_authorization))
        asking = self._asking
        done, _ = await asyncio.wait({asking}, timeout=LOAD_SECONDS_MAX)
        if not done:
            logger.warning(
                "the credentials are not renewed after %.0f s; the former ones are used", LOAD_SECONDS_MAX
            )
            return
        self._asking = None
        try:
            configuration.api_key[_TOKEN] = asking.result() or configuration.api_key[_TOKEN]
        except (config.ConfigException, OSError, ValueError) as failure:
            logger.warning("the credentials are not renewed; the former ones are used: %s", failure)
