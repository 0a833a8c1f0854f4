"""The way from a process of a cluster to ZooKeeper: the keys of Kafka up to 3.9, and three of ours for its user.

They are not a part of `Settings`, which holds the keys of Kafka 4.1: neither that nor `odradek start` uses ZooKeeper.
A process that joins a cluster reads both from the same entries.

Left out of Kafka's keys: stores in JKS and PKCS12 (Python reads PEM), lists of revoked certificates, and names of
ciphers (Java's are not OpenSSL's). There is no file of JAAS: the user of SASL is `zookeeper.digest.user`. `unused`
names those keys that a file of Kafka's is likely to have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NoReturn

from odradek.foundation.errors import SettingError
from odradek.foundation.settings.declaration import (
    EachOf,
    OneOf,
    Setting,
    boolean,
    integer,
    password,
    text,
    words,
)
from odradek.foundation.words import nearest_name

PREFIX: Final = "zookeeper."

# Kafka's own keys, which a `server.properties` may have and which have no effect here.
_UNUSED: Final = frozenset(
    {
        "zookeeper.sync.time.ms",
        "zookeeper.metadata.migration.enable",
        "zookeeper.metadata.migration.min.batch.size",
        "zookeeper.clientCnxnSocket",
        "zookeeper.ssl.protocol",
        "zookeeper.ssl.cipher.suites",
        "zookeeper.ssl.crl.enable",
        "zookeeper.ssl.ocsp.enable",
        "zookeeper.ssl.truststore.password",
    }
)


class ZookeeperSettings:
    """Read by the processes of a cluster; `odradek start` keeps its registry in a file and uses none of them. Keys of
    Kafka up to 3.9, but for `zookeeper.digest.*` and `zookeeper.sasl.client`.
    """

    zookeeper_connect: str | None = text(
        None,
        "The servers and the cluster's root node, as zk1:2181,zk2:2181/odradek; "
        "the node is created when missing.",
    )
    zookeeper_session_timeout_ms: int = integer(
        18_000,
        "How long ZooKeeper waits for a silent process before it ends the session. "
        "ZooKeeper itself allows 2 to 20 of its ticks.",
        1,
    )
    zookeeper_connection_timeout_ms: int | None = integer(
        None, "How long a start waits for ZooKeeper; without a value, zookeeper.session.timeout.ms.", 1
    )
    zookeeper_max_in_flight_requests: int = integer(
        10, "Requests to ZooKeeper that may be under way at once; more wait.", 1, 128
    )
    zookeeper_set_acl: bool = boolean(
        False, "Whether only zookeeper.digest.user may change the nodes, and read those with secrets."
    )
    zookeeper_digest_user: str | None = text(
        None, "The user that nodes belong to, by digest authentication or SASL."
    )
    zookeeper_digest_password: str | None = password("The password of zookeeper.digest.user.")
    zookeeper_sasl_client: bool = boolean(
        False,
        "Whether zookeeper.digest.user logs in with SASL (DIGEST-MD5), to a ZooKeeper whose JAAS file names it; "
        "needs pure-sasl.",
    )
    zookeeper_ssl_client_enable: bool = boolean(False, "Whether to use TLS with ZooKeeper.")
    zookeeper_ssl_truststore_location: str | None = text(
        None,
        "PEM file of the certificates that ZooKeeper's must be signed by; without one, the machine's trusted ones.",
    )
    zookeeper_ssl_truststore_type: str = text("PEM", "The format of the trust store.", OneOf("PEM"))
    zookeeper_ssl_keystore_location: str | None = text(
        None, "PEM file of this process's private key and certificate, for a ZooKeeper that asks for one."
    )
    zookeeper_ssl_keystore_type: str = text("PEM", "The format of the key store.", OneOf("PEM"))
    zookeeper_ssl_keystore_password: str | None = password(
        "The password of the private key, when it has one."
    )
    zookeeper_ssl_enabled_protocols: tuple[str, ...] = words(
        ("TLSv1.2", "TLSv1.3"), "The versions of TLS that may be used.", EachOf("TLSv1.2", "TLSv1.3")
    )
    zookeeper_ssl_endpoint_identification_algorithm: str = text(
        "HTTPS",
        "HTTPS checks that the certificate names the server connected to; empty does not.",
        OneOf("HTTPS", "", any_case=True),
    )

    given: Mapping[str, str]
    warnings: tuple[str, ...]
    unused: tuple[str, ...]

    def __init__(self, entries: Mapping[str, str] | None = None) -> None:
        """Read the keys of `entries` that begin with `zookeeper.`. Raises SettingError that lists every mistake."""
        given = {key: value for key, value in (entries or {}).items() if key.startswith(PREFIX)}
        values: dict[str, object] = {setting.attribute: setting.default for setting in USED.values()}
        problems: list[str] = []
        warnings: list[str] = []
        for key, value in given.items():
            setting = USED.get(key)
            if setting is not None:
                try:
                    values[setting.attribute] = setting.parse(value)
                except SettingError as error:
                    problems.append(str(error))
            elif key not in _UNUSED:
                nearest = nearest_name(key, USED)
                hint = "" if nearest is None else f"; did you mean {nearest}?"
                warnings.append(f"unknown setting {key} is ignored{hint}")
        values.update(
            given=given, warnings=tuple(warnings), unused=tuple(key for key in given if key in _UNUSED)
        )
        self.__dict__.update(values)
        problems += self._contradictions()
        if problems:
            raise SettingError("\n  ".join(problems))

    def _contradictions(self) -> list[str]:
        problems = []
        if (self.zookeeper_digest_user is None) != (self.zookeeper_digest_password is None):
            problems.append("zookeeper.digest.user and zookeeper.digest.password must be given together")
        if self.zookeeper_digest_user is not None and (
            not self.zookeeper_digest_user or ":" in self.zookeeper_digest_user
        ):
            problems.append(
                USED["zookeeper.digest.user"].refusal(self.zookeeper_digest_user, "a name without :").args[0]
            )
        if self.zookeeper_set_acl and self.zookeeper_digest_user is None:
            problems.append(
                "zookeeper.set.acl needs zookeeper.digest.user: nodes belong to the user who creates them"
            )
        if self.zookeeper_sasl_client and self.zookeeper_digest_user is None:
            problems.append("zookeeper.sasl.client needs zookeeper.digest.user, which logs in")
        if not self.zookeeper_ssl_enabled_protocols:
            problems.append("zookeeper.ssl.enabled.protocols names no version of TLS")
        return problems

    def __setattr__(self, attribute: str, value: object) -> NoReturn:
        raise AttributeError(f"settings are frozen: {attribute} cannot be set")

    def __repr__(self) -> str:
        shown = ", ".join(f"{key}={self.show_value(key)}" for key in self.given)
        return f"ZookeeperSettings({shown})"

    def show_value(self, key: str) -> str:
        """The text given for `key`, for a log line: secrets, and keys of unknown nature, are hidden."""
        setting = USED.get(key)
        return "[hidden]" if setting is None or setting.is_sensitive else self.given[key]


USED: Final[Mapping[str, Setting]] = {
    setting.key: setting for setting in vars(ZookeeperSettings).values() if isinstance(setting, Setting)
}
