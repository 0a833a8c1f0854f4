"""The Secret of a User: everything that a client needs to connect, by the names that clients and tools look for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from odradek_operator.desired.client_properties import (
    Credential,
    Password,
    client_properties,
    properties_file,
    spark_file,
    spark_options,
)
from odradek_operator.desired.names import CLUSTER_LABEL, MANAGED_BY, MANAGED_BY_LABEL, Json
from odradek_operator.desired.security import encode_files

ROTATION_ANNOTATION: Final = "odradek.io/rotate"
"""On a User: another value asks for a new password or certificate. On its Secret: the value that was followed last."""
USER_LABEL: Final = "odradek.io/user"
PKCS12_FILE: Final = "user.p12"
PKCS12_PASSWORD_FILE: Final = "user.password"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserConnection:
    """The connection of a user. `authority` is what it trusts, in PEM; None for its system's authorities.

    `zookeeper` is what clients of ZooKeeper are given beside it; empty where none are admitted.
    """

    bootstrap: str
    protocol: str
    authority: str | None = None
    zookeeper: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserLogin:
    """A user's credentials. `store` has the same certificate as PKCS#12, and the password of that."""

    credential: Credential
    store: Mapping[str, bytes] = field(default_factory=dict, repr=False)


def user_files(user: str, connection: UserConnection, login: UserLogin) -> dict[str, str | bytes]:
    """The content of the Secret, by the names of its files."""
    properties = client_properties(
        connection.bootstrap,
        connection.protocol,
        authority=connection.authority,
        credential=login.credential,
    )
    options = spark_options(properties)
    files: dict[str, str | bytes] = {
        "type": "kafka",
        "provider": "odradek",
        "username": user,
        "bootstrap.servers": connection.bootstrap,
        "security.protocol": connection.protocol,
        "client.properties": properties_file(properties),
        "spark.properties": spark_file(options),
        **options,
        **connection.zookeeper,
    }
    if connection.authority is not None:
        files["ca.crt"] = connection.authority
    match login.credential:
        case Password() as password:
            files |= {
                "password": password.password,
                "sasl.mechanism": password.mechanism,
                "sasl.jaas.config": password.jaas,
            }
        case pair:
            # cert-manager's names, and those that users of Strimzi know.
            files |= {"tls.crt": pair.certificate, "tls.key": pair.key}
            files |= {"user.crt": pair.certificate, "user.key": pair.key, **login.store}
    return files


def user_secret(
    name: str,
    namespace: str,
    *,
    owner: Json,
    cluster: str,
    user: str,
    rotation: str,
    files: Mapping[str, str | bytes],
) -> Json:
    """The Secret. It goes with the User that owns it."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {MANAGED_BY_LABEL: MANAGED_BY, CLUSTER_LABEL: cluster, USER_LABEL: user},
            "annotations": {ROTATION_ANNOTATION: rotation},
            "ownerReferences": [owner],
        },
        "type": "Opaque",
        "data": encode_files(files),
    }
