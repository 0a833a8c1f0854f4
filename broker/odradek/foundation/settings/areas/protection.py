"""Keys whose values promise protection that this broker lacks: authentication, authorization, encryption, quotas.

A broker that accepted them would serve every client, against the intent of its owner. So `settings.protection`
refuses them. A row is a key, or a prefix that ends with a dot; the first row that matches counts. A key that the broker
implements leaves the table. Not here: secured listeners, which `settings.protection` finds by their protocol, and
secrets of Kafka that only protect other secrets (`password.encoder.secret`).
"""

from __future__ import annotations

from typing import Final

from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.settings.areas.security import SaslSettings, TlsSettings
from odradek.foundation.settings.declaration import Scope, Setting


class ProtectionSetting(NamedTuple):
    """`asks_for` is what a value of `key` asks for, in words. `harmless` asks for nothing, like Kafka's default."""

    key: str
    asks_for: str
    harmless: str = ""

    @property
    def is_family(self) -> bool:
        return self.key.endswith(".")


PROTECTION_SETTINGS: Final = (
    ProtectionSetting("principal.builder.class", "a Java class decides which user a client is"),
    ProtectionSetting("create.topic.policy.class.name", "a Java class decides which topics may be made"),
    ProtectionSetting("alter.config.policy.class.name", "a Java class decides which settings may be changed"),
    ProtectionSetting(
        "security.inter.broker.protocol",
        "brokers encrypt or authenticate their connections to each other",
        "PLAINTEXT",
    ),
    ProtectionSetting("security.providers", "Java security providers encrypt or authenticate connections"),
    ProtectionSetting("ssl.client.auth", "clients show a certificate", "none"),
    ProtectionSetting("ssl.", "connections are encrypted with TLS"),
    ProtectionSetting("sasl.", "clients or brokers log in with SASL"),
    ProtectionSetting("connections.max.reauth.ms", "clients log in again after this time"),
    ProtectionSetting("delegation.token.master.key", "clients log in with delegation tokens"),
    ProtectionSetting("client.quota.callback.class", "a Java class decides on the quotas of clients"),
    ProtectionSetting("quota.producer.default", "clients have a quota, which `odradek quotas set` sets"),
    ProtectionSetting("quota.consumer.default", "clients have a quota, which `odradek quotas set` sets"),
    ProtectionSetting("zookeeper.ssl.crl.enable", "revoked certificates of ZooKeeper are refused", "false"),
    ProtectionSetting("zookeeper.ssl.ocsp.enable", "revoked certificates of ZooKeeper are refused", "false"),
    ProtectionSetting("zookeeper.ssl.cipher.suites", "only these ciphers are used with ZooKeeper"),
)

# In the form `listener.name.NAME.KEY` only: for the whole broker this one is kept.
LISTENER_PROMISES: Final = (
    ProtectionSetting("max.connections", "this listener accepts no more connections than this"),
)

# Keys that are kept for each listener, whatever it speaks.
KEPT_BY_LISTENERS: Final = frozenset(("max.connection.creation.rate",))

# Keys of the families above that a broker keeps whose listeners speak TLS. `security` refuses what it cannot keep.
KEPT_BY_TLS: Final = frozenset(one.key for one in vars(TlsSettings).values() if isinstance(one, Setting))
# Of those, what may change while a broker runs, in the form for one listener: the stores and their passwords.
STORES_OF_LISTENERS: Final = frozenset(
    one.key
    for one in vars(TlsSettings).values()
    if isinstance(one, Setting) and one.scope is Scope.PER_BROKER
)
# Those that it keeps where clients log in.
KEPT_BY_SASL: Final = frozenset(one.key for one in vars(SaslSettings).values() if isinstance(one, Setting))

# Keys of the families above that promise nothing by themselves. They set a time, a rate or an amount for another key's
# protection, they loosen it, or they say how Java reads a store.
NO_PROMISE: Final = (
    "ssl.allow.dn.changes",
    "ssl.allow.san.changes",
    "ssl.keymanager.algorithm",
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.ticket.renew.",
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.refresh.",
    "sasl.login.retry.",
    "sasl.oauthbearer.assertion.claim.exp.seconds",
    "sasl.oauthbearer.assertion.claim.nbf.seconds",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.",
    "sasl.server.max.receive.size",
)
LISTENER_PREFIX: Final = "listener.name."


def protection_setting_of(key: str) -> ProtectionSetting | None:
    """The row for `key`, also in its forms for one listener and one SASL mechanism. None for a key that promises
    nothing.
    """
    if key.startswith(LISTENER_PREFIX):
        base = key.removeprefix(LISTENER_PREFIX).partition(".")[2]
        # `scram-sha-256.sasl.jaas.config` is the form for one mechanism.
        without_mechanism = base.partition(".")[2]
        is_for_mechanism = without_mechanism.startswith(("sasl.", "connections."))
        return _find(
            without_mechanism if is_for_mechanism else base, (*LISTENER_PROMISES, *PROTECTION_SETTINGS)
        )
    return _find(key, PROTECTION_SETTINGS)


def _find(key: str, rows: tuple[ProtectionSetting, ...]) -> ProtectionSetting | None:
    for row in rows:
        if key == row.key or (row.is_family and key.startswith(row.key)):
            return None if _fits(key, NO_PROMISE) else row
    return None


def _fits(key: str, patterns: tuple[str, ...]) -> bool:
    return any(key == one or (one.endswith(".") and key.startswith(one)) for one in patterns)
