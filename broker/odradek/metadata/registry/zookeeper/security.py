"""Access lists of the nodes in ZooKeeper, and the user and TLS of connections to it.

A user is shown to ZooKeeper in one of two ways. With digest authentication ZooKeeper keeps no users: a client with the
password of a node's owner is the owner. With SASL it has a file of users, and may refuse all others.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, NamedTuple

from kazoo.security import (
    CREATOR_ALL_ACL,
    OPEN_ACL_UNSAFE,
    READ_ACL_UNSAFE,
    Permissions,
    make_acl,
    make_digest_acl_credential,
)

from odradek.foundation.errors import DependencyError, SettingError
from odradek.foundation.settings.areas.zookeeper import ZookeeperSettings

if TYPE_CHECKING:
    from kazoo.security import ACL

# Consumers of groups that share partitions through ZooKeeper make and remove nodes here, as in Kafka. Kafka lets them
# change this node's access list too, by which one of them could lock out all others.
CLIENTS_BRANCH: Final = "/consumers"
_OF_CLIENTS: Final[int] = Permissions.READ | Permissions.WRITE | Permissions.CREATE | Permissions.DELETE

# They hold secrets, so only their owner reads them. All users may read everything else, as in Kafka.
SECRET_BRANCHES: Final = (
    "/config/users",
    "/config/brokers",
    "/delegation_token/tokens",
    "/cluster/login_secret",
)

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}

_ANYBODY: Final[Sequence[ACL]] = OPEN_ACL_UNSAFE
_OWNER_ALONE: Final[Sequence[ACL]] = CREATOR_ALL_ACL
_OWNER: Final[Sequence[ACL]] = CREATOR_ALL_ACL + READ_ACL_UNSAFE
_OWNER_AND_CLIENTS: Final[Sequence[ACL]] = [
    *CREATOR_ALL_ACL,
    make_acl("world", "anyone", read=True, write=True, create=True, delete=True),
]


def open_to_all(path: str) -> Sequence[ACL]:
    """The access list (kazoo's ACLs) of a node at `path`: all users may do everything."""
    return _ANYBODY


def build_owned_acl(path: str) -> Sequence[ACL]:
    """The access list of a node at `path`: its creator may do everything, others may read it unless it can hold
    secrets. At `CLIENTS_BRANCH` others may do all but change the list.
    """
    if path == CLIENTS_BRANCH:
        return _OWNER_AND_CLIENTS
    return _OWNER if permissions_of_all(path) else _OWNER_ALONE


def permissions_of_all(path: str) -> int:
    """The bits of what all users may do with an owned node at `path`."""
    if path == CLIENTS_BRANCH:
        return _OF_CLIENTS
    is_secret = path.startswith(tuple(f"{branch}/" for branch in SECRET_BRANCHES)) or path in SECRET_BRANCHES
    return 0 if is_secret else Permissions.READ


class ZooKeeperCredentials(NamedTuple):
    """The user as kazoo shows it: `auth_data` for digest authentication, or `sasl`. Both hold the password."""

    auth_data: tuple[tuple[str, str], ...] = ()
    sasl: Mapping[str, str] | None = None

    def __repr__(self) -> str:
        return "ZooKeeperCredentials(hidden)"


def login(settings: ZookeeperSettings) -> ZooKeeperCredentials:
    """The user of the settings. Raises DependencyError for SASL without its library."""
    user, password = settings.zookeeper_digest_user, settings.zookeeper_digest_password
    if user is None or password is None:
        return ZooKeeperCredentials()
    if not settings.zookeeper_sasl_client:
        return ZooKeeperCredentials((("digest", f"{user}:{password}"),))
    if find_spec("puresasl") is None:
        raise DependencyError(
            "zookeeper.sasl.client=true needs a package that is not installed: pip install pure-sasl"
        )
    return ZooKeeperCredentials(sasl={"mechanism": "DIGEST-MD5", "username": user, "password": password})


def too_wide(path: str, entries: Sequence[ACL]) -> list[ACL]:
    """The entries of a node's access list that give any client more than `owned` does; no login backs them."""
    allowed = permissions_of_all(path)
    return [one for one in entries if one.id.scheme in ("world", "ip") and one.perms & ~allowed]


def own_ids(settings: ZookeeperSettings) -> frozenset[tuple[str, str]]:
    """The user of the settings as access lists have it, by scheme and id; empty without a user."""
    user, password = settings.zookeeper_digest_user, settings.zookeeper_digest_password
    if user is None or password is None:
        return frozenset()
    if settings.zookeeper_sasl_client:
        return frozenset((("sasl", user),))
    return frozenset((("digest", make_digest_acl_credential(user, password)),))


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
