"""The properties of Kafka's clients (`client.properties`) that this client understands: one declaration of them.

The names, units and meanings are Kafka's (https://kafka.apache.org/documentation/#adminclientconfigs). Keys that ask
for security which the client does not have are refused, because a connection without it would go unnoticed. Other keys
of Kafka's clients, and unknown keys, give a warning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from odradek.foundation.endpoints import SECURITY_PROTOCOLS
from odradek.foundation.errors import SettingError
from odradek.foundation.settings.declaration import Kind, Matching, NotEmpty, OneOf, Setting, integer, text
from odradek.foundation.settings.known_names import read_names
from odradek.foundation.settings.tables import SettingTable, read_setting, suggest
from odradek.foundation.words import nearest_name

BOOTSTRAP_SERVERS: Final = "bootstrap.servers"
CLIENT_ID: Final = "client.id"
REQUEST_TIMEOUT_MS: Final = "request.timeout.ms"
API_TIMEOUT_MS: Final = "default.api.timeout.ms"
CONNECT_TIMEOUT_MS: Final = "socket.connection.setup.timeout.ms"
METADATA_AGE_MS: Final = "metadata.max.age.ms"
SECURITY_PROTOCOL: Final = "security.protocol"
PLAINTEXT: Final = "PLAINTEXT"
SCHEMA_REGISTRY_URL: Final = "schema.registry.url"
SCHEMA_REGISTRY_LOGIN: Final = "basic.auth.user.info"
SCHEMA_REGISTRY_TOKEN: Final = "bearer.auth.token"
SCHEMA_REGISTRY_AUTHORITY: Final = "schema.registry.ssl.truststore.location"

CLIENT_PROPERTIES: Final = SettingTable(
    {
        BOOTSTRAP_SERVERS: text("127.0.0.1:9092", "The bootstrap brokers: HOST:PORT, several with commas."),
        CLIENT_ID: text("odradek-cli", "The name that brokers log and describe the client by."),
        REQUEST_TIMEOUT_MS: integer(30000, "How long one request waits for its answer.", 1),
        API_TIMEOUT_MS: integer(
            30000, "How long a call with all its retries takes; without it as long as request.timeout.ms.", 1
        ),
        CONNECT_TIMEOUT_MS: integer(10000, "How long a broker has to accept a connection.", 1),
        METADATA_AGE_MS: integer(
            300000, "The age at which brokers, topics and leaders are requested again.", 1
        ),
        SECURITY_PROTOCOL: text(
            PLAINTEXT,
            "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL; with Kafka's `ssl.*`, `sasl.mechanism`, `sasl.jaas.config`.",
        ),
    }
)
# Confluent's names, as its clients' property files have them beside Kafka's.
SCHEMA_REGISTRY_PROPERTIES: Final = SettingTable(
    {
        SCHEMA_REGISTRY_URL: text(
            None, "The schema registry of `consume`: http://HOST:PORT, several with commas."
        ),
        "basic.auth.credentials.source": text(
            "USER_INFO", "Where the registry's login is: in basic.auth.user.info.", OneOf("USER_INFO")
        ),
        SCHEMA_REGISTRY_LOGIN: Setting(
            Kind.PASSWORD,
            None,
            "The registry's login, as USER:PASSWORD.",
            allowed=Matching("[^:]+:.*", "a user and a password with a colon between them"),
        ),
        "bearer.auth.credentials.source": text(
            "STATIC_TOKEN", "Where the registry's token is: in bearer.auth.token.", OneOf("STATIC_TOKEN")
        ),
        SCHEMA_REGISTRY_TOKEN: Setting(
            Kind.PASSWORD, None, "A token in place of the registry's login.", allowed=NotEmpty()
        ),
        SCHEMA_REGISTRY_AUTHORITY: text(
            None, "The PEM file of the registry's authority, where the system does not trust it.", NotEmpty()
        ),
        "schema.registry.ssl.truststore.type": text("PEM", "The type of that file.", OneOf("PEM")),
    }
)
_SECURITY_PREFIXES: Final = ("ssl.", "sasl.", "security.")
# Those of security that are kept. Their values may be secrets, and are never shown.
SECURITY_PROPERTIES: Final = frozenset({
    "sasl.jaas.config", "sasl.login.callback.handler.class", "sasl.mechanism",
    "sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.scope", "sasl.oauthbearer.token.endpoint.url", "ssl.cipher.suites",
    "ssl.enabled.protocols", "ssl.endpoint.identification.algorithm", "ssl.key.password",
    "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.keystore.location",
    "ssl.keystore.password", "ssl.keystore.type", "ssl.protocol", "ssl.truststore.certificates",
    "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type",
})  # fmt: skip
# What other clients call properties of security, and what to write instead.
_LOGIN: Final = (
    'the user and the password in sasl.jaas.config: …LoginModule required username="…" password="…";'
)
_OTHER_NAMES: Final = {
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.password": _LOGIN,
    "sasl.username": _LOGIN,
    "ssl.ca.location": "ssl.truststore.location, with ssl.truststore.type=PEM",
    "ssl.certificate.location": "ssl.keystore.location, with ssl.keystore.type=PEM: certificate and key in one file",
    "ssl.key.location": "ssl.keystore.location, with ssl.keystore.type=PEM: certificate and key in one file",
}
# What a Client takes by other arguments.
_ARGUMENTS: Final = {
    BOOTSTRAP_SERVERS: "bootstrap",
    CLIENT_ID: "client_id",
    REQUEST_TIMEOUT_MS: "request_timeout_ms",
    API_TIMEOUT_MS: "api_timeout_ms",
    CONNECT_TIMEOUT_MS: "connect_timeout_ms",
    METADATA_AGE_MS: "metadata_age_ms_max",
}
# Keys that Kafka's tools read from the same files, and the verb's option for each.
_OPTIONS: Final = {
    "acks": "produce --acks",
    "auto.offset.reset": "consume --from-beginning",
    "batch.size": "produce --batch-bytes",
    "compression.type": "produce --compression",
    "delivery.timeout.ms": "produce --timeout",
    "group.id": "consume --group",
    "isolation.level": "consume --isolation",
    "linger.ms": "produce --linger-ms",
    "transaction.timeout.ms": "produce --transaction-timeout",
    "transactional.id": "produce --transactional-id",
}


@dataclass(frozen=True, slots=True)
class ReadProperties:
    """The understood entries, in the order given, and a sentence for each key without effect."""

    values: Mapping[str, str]
    warnings: tuple[str, ...] = field(default=())


def read_client_properties(entries: Mapping[str, str], *, source: str) -> ReadProperties:
    """The entries that this client understands. Raises SettingError, naming `source`, for a value that cannot be read,
    and for any key that asks for security. Values of such keys are never shown.
    """
    _refuse_security(entries, source)
    values: dict[str, str] = {}
    warnings: list[str] = []
    for name, value in entries.items():
        if name in SECURITY_PROPERTIES:
            values[name] = value.strip()
            continue
        declared = CLIENT_PROPERTIES.get(name) or SCHEMA_REGISTRY_PROPERTIES.get(name)
        if declared is None:
            warnings.append(f"{source}: {_without_effect(name)}")
            continue
        read_setting(declared, value, where=f"{source}: ")
        if name == BOOTSTRAP_SERVERS:
            _check_addresses(value.strip(), source)
        values[name] = value.strip()
    return ReadProperties(values, tuple(warnings))


def hide_secret(name: str, value: str) -> str:
    """A property's value for people: nothing of a secret, and of an address no login."""
    if name in SECURITY_PROPERTIES or name in (SCHEMA_REGISTRY_LOGIN, SCHEMA_REGISTRY_TOKEN):
        return "[hidden]"
    return re.sub(r"//[^/@]*@", "//[hidden]@", value) if name == SCHEMA_REGISTRY_URL else value


def security_of(properties: Mapping[str, str]) -> dict[str, str]:
    """Those that are about security. They hold secrets."""
    return {
        name: value
        for name, value in properties.items()
        if name == SECURITY_PROTOCOL or name in SECURITY_PROPERTIES
    }


def check_security(given: Mapping[str, str], *, source: str) -> None:
    """Refuse what is no property of security, before anything is sent. Raises SettingError, and TypeError for a value
    that is no text. Values are never shown.
    """
    if not isinstance(given, Mapping):
        raise TypeError(
            f"{source} has to be a mapping of Kafka's properties, like {{'security.protocol': 'SSL'}}, "
            f"not a {type(given).__name__}"
        )
    for name, value in given.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(
                f"{source}: the value of {name!r} has to be a str, not a {type(value).__name__}; write str(…)"
            )
        if name in _ARGUMENTS:
            raise SettingError(
                f"{source}: {name} is no property of security; write Client(…, {_ARGUMENTS[name]}=…)"
            )
        if not name.startswith(_SECURITY_PREFIXES):
            hint = suggest(name, (SECURITY_PROTOCOL, *SECURITY_PROPERTIES))
            raise SettingError(f"{source}: {name} is no property of security{hint}")
    _refuse_security(given, source)


def _refuse_security(entries: Mapping[str, str], source: str) -> None:
    """Refuse keys of security that this client does not have, and those that its protocol makes no use of."""
    protocol = entries.get(SECURITY_PROTOCOL, PLAINTEXT).strip().upper()
    if protocol not in SECURITY_PROTOCOLS:
        raise SettingError(
            f"{source}: {SECURITY_PROTOCOL} must be one of {', '.join(SECURITY_PROTOCOLS)}, not {protocol}"
        )
    asked = [name for name in entries if name.startswith(_SECURITY_PREFIXES) and name != SECURITY_PROTOCOL]
    missing = [name for name in asked if name not in SECURITY_PROPERTIES]
    if missing:
        raise SettingError(
            f"{source} asks for security that this client does not have: {', '.join(missing)}. Nothing was sent. "
            f"{_remedy(missing)}"
        )
    if asked and protocol == PLAINTEXT:
        raise SettingError(
            f"{source} has {', '.join(asked)}, and {SECURITY_PROTOCOL} is PLAINTEXT, which uses none of them. Nothing "
            f"was sent. Set {SECURITY_PROTOCOL} to SSL, SASL_PLAINTEXT or SASL_SSL, or remove the keys"
        )


def _remedy(missing: Sequence[str]) -> str:
    """What to write instead of a name of security that is unknown."""
    for name in missing:
        if name in _OTHER_NAMES:
            return f"Instead of {name} write {_OTHER_NAMES[name]}"
        if (nearest := nearest_name(name, (SECURITY_PROTOCOL, *sorted(SECURITY_PROPERTIES)))) is not None:
            return f"Instead of {name} write {nearest}, if you mean that; else remove it"
    return "Remove the keys, or use another client"


def _check_addresses(addresses: str, source: str) -> None:
    from odradek.client.addresses import parse_addresses

    try:
        parse_addresses(addresses)
    except ValueError as failure:
        raise SettingError(f"{source}: {BOOTSTRAP_SERVERS}: {failure}") from failure


def _without_effect(name: str) -> str:
    if name in _OPTIONS:
        return f"{name} has no effect; use `odradek {_OPTIONS[name]}`"
    unused = read_names(__file__, "unused_properties.tsv")
    if name in unused:
        return f"{name} has no effect: it is a property of Kafka's clients that odradek does not use"
    hint = CLIENT_PROPERTIES.suggest(name, *SCHEMA_REGISTRY_PROPERTIES, *_OPTIONS, *unused)
    return f"{name} is not a client property and has no effect{hint}"
