"""The connection of a User: a listener of its Cluster that has its kind of authentication, and a brought password.

The operator reads a password that its owner brings only from a Secret whose label says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from odradek_operator.desired.names import PASSWORD_LABEL
from odradek_operator.desired.security import (
    Secured,
    decode_secret,
    protocol_of,
)
from odradek_operator.desired.user_secret import UserConnection
from odradek_operator.foundation.authority_keys import AuthorityKeys, keys_of
from odradek_operator.gateways.kubernetes import Json, metadata
from odradek_operator.gateways.secrets import Secrets, SecretTaken
from odradek_operator.reconcilers.reconciler import status_of
from odradek_operator.resources.cluster import ClusterSpec
from odradek_operator.resources.cluster_status import ClusterStatus
from odradek_operator.resources.security import AuthenticationType
from odradek_operator.resources.structure import InvalidResource, parse
from odradek_operator.resources.user import SecretKey, UserSpec

INTERNAL = "internal"
_PASSWORD_LENGTH_MAX: Final = 256


class CannotConnect(Exception):
    """No listener is there for the user, or what it needs is not known yet."""


class ClusterFacts:
    """The parts of one Cluster that its Users need. Its Secrets are read once."""

    def __init__(self, cluster: Json, secrets: Secrets) -> None:
        self._body = cluster
        self._secrets = secrets
        self._status = status_of(cluster, ClusterStatus)
        self._authorities: dict[str, AuthorityKeys] = {}

    async def read_connection(self, user: UserSpec) -> UserConnection:
        """Raises CannotConnect, KubernetesError."""
        name, listener, bootstrap = self._choose_listener(user)
        if not bootstrap:
            raise CannotConnect(f"the address of the listener {name} is not known yet")
        authority: str | None = None
        if listener.tls:
            own = listener.certificate
            authority = (
                own.authority if own is not None else (await self.read_authority("cluster-ca")).trusted
            )
        connect = self._status.zookeeper_connect
        return UserConnection(
            bootstrap=bootstrap,
            protocol=protocol_of(listener),
            authority=authority,
            zookeeper={"zookeeper.connect": connect} if connect is not None else {},
        )

    def _choose_listener(self, user: UserSpec) -> tuple[str, Secured, str | None]:
        wanted = user.authentication.type
        for name, listener, bootstrap in self._listeners():
            if user.listener not in (None, name):
                continue
            if listener.authentication is not None and listener.authentication.type is wanted:
                return name, listener, bootstrap
        which = f"a listener {user.listener}" if user.listener else "a listener"
        raise CannotConnect(
            f"the Cluster {self._name} has not {which} with authentication {wanted}: give it one, or the User another "
            "authentication"
        )

    def _listeners(self) -> Iterator[tuple[str, Secured, str | None]]:
        try:
            spec = parse(ClusterSpec, self._body.get("spec"))
        except InvalidResource as invalid:
            raise CannotConnect(f"the Cluster {self._name} cannot be used: {invalid}") from invalid
        if spec.internal_listener is not None:
            yield INTERNAL, spec.internal_listener, self._status.bootstrap
        known = {one.name: one.bootstrap for one in self._status.listeners}
        for listener in spec.listeners:
            yield listener.name, listener, known.get(listener.name)

    async def read_authority(self, suffix: str) -> AuthorityKeys:
        """An authority of the Cluster, with its keys. Raises CannotConnect, KubernetesError."""
        if suffix not in self._authorities:
            self._authorities[suffix] = await self._read(f"{self._name}-{suffix}")
        return self._authorities[suffix]

    async def _read(self, name: str) -> AuthorityKeys:
        missing = CannotConnect(f"the Secret {name} with the Cluster's authority is not there yet")
        try:
            found = await self._secrets.read(str(metadata(self._body)["namespace"]), name)
        except SecretTaken as taken:
            raise CannotConnect(str(taken)) from taken
        owners = metadata(found or {}).get("ownerReferences") or ()
        if found is None or not any(one.get("uid") == metadata(self._body)["uid"] for one in owners):
            raise missing
        keys = keys_of(decode_secret(found))
        if keys is None:
            raise missing
        return keys

    @property
    def _name(self) -> str:
        return str(metadata(self._body)["name"])

    @property
    def console_user(self) -> str | None:
        """The User by which the console logs in, where there is one."""
        found = ((self._body.get("spec") or {}).get("console") or {}).get("user")
        return None if found is None else str(found)

    @property
    def days(self) -> tuple[int, int]:
        """For how many days a certificate is good, and how many before its end it is renewed."""
        wanted = parse(ClusterSpec, self._body.get("spec")).certificates
        return wanted.validity_days, wanted.renewal_days


def is_by_certificate(user: UserSpec) -> bool:
    """Whether the user proves its name by a certificate."""
    return user.authentication.type is AuthenticationType.TLS


class NoPassword(Exception):
    """There is no password that can be used; the text says why, and what to do."""


async def read_password(secrets: Secrets, namespace: str, source: SecretKey) -> str:
    """Raises NoPassword, KubernetesError."""
    name = source.name
    try:
        found = await secrets.read(namespace, name)
    except SecretTaken:
        # The API server's policy refuses what has no label.
        found = {}
    if found is None:
        raise NoPassword(
            f"there is no Secret {name} with the password: make it, or correct authentication.password"
        )
    labels = metadata(found).get("labels") or {} if found else {}
    if labels.get(PASSWORD_LABEL) != "true":
        raise NoPassword(f'the Secret {name} is not for the operator: label it {PASSWORD_LABEL}="true"')
    value = decode_secret(found).get(source.key)
    if not value:
        raise NoPassword(f"the Secret {name} has no password at the key {source.key}: put it there")
    try:
        password = value.decode("ascii")
    except UnicodeDecodeError:
        password = ""
    # Java reads a properties file as Latin-1, and a line break would end the value there.
    if (
        not password.isprintable()
        or not 0 < len(password) <= _PASSWORD_LENGTH_MAX
        or password != password.strip()
    ):
        raise NoPassword(
            f"the password at the key {source.key} of the Secret {name} cannot be used. Give 1 to "
            f"{_PASSWORD_LENGTH_MAX} printable ASCII characters, with no blank or line break at either end"
        )
    return password
