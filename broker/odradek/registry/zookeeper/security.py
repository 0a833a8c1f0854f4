"""Access lists of the nodes in ZooKeeper, and TLS for the connections to it."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from typing import Any, Final

from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from odradek.foundation.broker_settings.zookeeper import ZookeeperSettings
from odradek.foundation.errors import SettingError

# Their settings may be secrets, so only their owner reads them. All users may read everything else, as in Kafka.
SECRET_BRANCHES: Final = ("/config/users", "/config/brokers")

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}

_ANYBODY: Final[Sequence[Any]] = OPEN_ACL_UNSAFE
_OWNER_ALONE: Final[Sequence[Any]] = CREATOR_ALL_ACL
_OWNER: Final[Sequence[Any]] = CREATOR_ALL_ACL + READ_ACL_UNSAFE


def open_to_all(path: str) -> Sequence[Any]:
    """The access list (kazoo's ACLs) of a node at `path`: all users may do everything."""
    return _ANYBODY


def owned(path: str) -> Sequence[Any]:
    """The access list of a node at `path`: its creator may do everything, others may read it unless it can hold
    secrets.
    """
    is_secret = path.startswith(tuple(f"{branch}/" for branch in SECRET_BRANCHES)) or path in SECRET_BRANCHES
    return _OWNER_ALONE if is_secret else _OWNER


def tls_context(settings: ZookeeperSettings) -> ssl.SSLContext | None:
    """The TLS context of the settings, or None without TLS. Raises SettingError for files that cannot be used."""
    if not settings.zookeeper_ssl_client_enable:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = bool(settings.zookeeper_ssl_endpoint_identification_algorithm)
    context.minimum_version = min(_VERSIONS[name] for name in settings.zookeeper_ssl_enabled_protocols)
    context.maximum_version = max(_VERSIONS[name] for name in settings.zookeeper_ssl_enabled_protocols)
    trusted = settings.zookeeper_ssl_truststore_location
    if trusted is None:
        context.load_default_certs()
    else:
        _use("zookeeper.ssl.truststore.location", trusted, lambda: context.load_verify_locations(trusted))
    own = settings.zookeeper_ssl_keystore_location
    if own is not None:
        # Without a password OpenSSL would ask for an encrypted key's password on the terminal.
        password = settings.zookeeper_ssl_keystore_password or ""
        _use("zookeeper.ssl.keystore.location", own, lambda: context.load_cert_chain(own, password=password))
    return context


def _use(key: str, path: str, load: Callable[[], None]) -> None:
    try:
        load()
    except (OSError, ssl.SSLError) as error:
        raise SettingError(
            f"Invalid value {path} for configuration {key}: it cannot be used ({error}); it must be a PEM file"
            f"{' with the private key and its certificate' if 'keystore' in key else ' of certificates'}"
        ) from error
