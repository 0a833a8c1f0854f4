"""Keys whose values promise protection that this broker lacks: authentication, authorization, encryption, quotas.

A broker that accepted them would serve every client, against the intent of its owner. So `foundation.protection`
refuses them. A row is a key, or a prefix that ends with a dot; the first row that matches counts. A key that the broker
implements leaves the table. Not here: secured listeners, which `foundation.protection` finds by their protocol, and
secrets of Kafka that only protect other secrets (`password.encoder.secret`).
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Promise(NamedTuple):
    """What a value of `key` asks for, in words, and the value besides Kafka's default that asks for nothing."""

    key: str
    asks_for: str
    harmless: str = ""

    @property
    def is_family(self) -> bool:
        return self.key.endswith(".")


PROMISES: Final = (
    Promise("authorizer.class.name", "access control lists decide what each user may do"),
    Promise(
        "allow.everyone.if.no.acl.found", "only super users may use what has no access control list", "true"
    ),
    Promise("super.users", "only these users may do everything"),
    Promise("principal.builder.class", "a Java class decides which user a client is"),
    Promise("create.topic.policy.class.name", "a Java class decides which topics may be made"),
    Promise("alter.config.policy.class.name", "a Java class decides which settings may be changed"),
    Promise(
        "security.inter.broker.protocol",
        "brokers encrypt or authenticate what they say to each other",
        "PLAINTEXT",
    ),
    Promise("security.providers", "Java security providers encrypt or authenticate connections"),
    Promise("ssl.client.auth", "clients show a certificate", "none"),
    Promise("ssl.", "connections are encrypted with TLS"),
    Promise("sasl.", "clients or brokers log in with SASL"),
    Promise("connections.max.reauth.ms", "clients log in again after this time"),
    Promise("delegation.token.secret.key", "clients log in with delegation tokens"),
    Promise("delegation.token.master.key", "clients log in with delegation tokens"),
    Promise("client.quota.callback.class", "a Java class decides on the quotas of clients"),
    Promise("controller.quota.", "clients that change topics too fast are slowed down"),
    Promise("quota.", "clients are slowed down to their quotas"),
    Promise("max.connection.creation.rate", "clients that connect too fast are slowed down"),
    Promise("zookeeper.ssl.crl.enable", "revoked certificates of ZooKeeper are refused", "false"),
    Promise("zookeeper.ssl.ocsp.enable", "revoked certificates of ZooKeeper are refused", "false"),
    Promise("zookeeper.ssl.cipher.suites", "only these ciphers are spoken with ZooKeeper"),
)

# In the form `listener.name.NAME.KEY` only: for the whole broker this one is kept.
LISTENER_PROMISES: Final = (Promise("max.connections", "this listener takes no more connections than this"),)

# Keys of the families above that promise nothing by themselves. They say how long, how often or how much of what
# another key asks for, or they loosen it.
NO_PROMISE: Final = (
    "ssl.allow.dn.changes",
    "ssl.allow.san.changes",
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
_LISTENER_PREFIX: Final = "listener.name."


def promise_of(key: str) -> Promise | None:
    """The row for `key`, also in its forms for one listener and one SASL mechanism; None when it promises nothing."""
    if key.startswith(_LISTENER_PREFIX):
        base = key.removeprefix(_LISTENER_PREFIX).partition(".")[2]
        # `scram-sha-256.sasl.jaas.config` is the form for one mechanism.
        without_mechanism = base.partition(".")[2]
        is_for_mechanism = without_mechanism.startswith(("sasl.", "connections."))
        return _find(without_mechanism if is_for_mechanism else base, (*LISTENER_PROMISES, *PROMISES))
    return _find(key, PROMISES)


def _find(key: str, rows: tuple[Promise, ...]) -> Promise | None:
    for row in rows:
        if key == row.key or (row.is_family and key.startswith(row.key)):
            return None if _fits(key, NO_PROMISE) else row
    return None


def _fits(key: str, patterns: tuple[str, ...]) -> bool:
    return any(key == one or (one.endswith(".") and key.startswith(one)) for one in patterns)
