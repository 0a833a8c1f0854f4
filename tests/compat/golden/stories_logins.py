"""Stories of logins and of the users of SCRAM: what is refused, and how answers look in each version.

Broker and Apache Kafka get the settings in `SETTINGS`, by story.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from odradek.wire.protocol.api import ApiKey
from tests.compat.golden.stories_versions import versions
from tests.compat.golden.wire import Wire

APPLIED_SECONDS_MAX: Final = 20.0
SHA_256, SHA_512 = 1, 2
ALICE: Final = b"\0alice\0secret"
_PLAIN: Final = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="admin" user_admin="admin" user_alice="secret";'
)
WITH_LOGINS: Final = {
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": _PLAIN,
    "listener.name.plaintext.scram-sha-256.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
    "connections.max.reauth.ms": "60000",
}


# --- logins -------------------------------------------------------------------------------------------------


def handshake(wire: Wire, on: str, mechanism: str = "PLAIN") -> None:
    wire.ask_quietly(ApiKey.SASL_HANDSHAKE, 1, on=on, mechanism=mechanism)


def token(wire: Wire, label: str, given: bytes, *, on: str, version: int = 2) -> None:
    wire.ask(label, ApiKey.SASL_AUTHENTICATE, version, on=on, auth_bytes=given)


def logins_sweep(wire: Wire) -> None:
    """A whole login in each version; that of the oldest handshake has tokens without headers."""
    for version in versions(ApiKey.SASL_HANDSHAKE):
        on = f"handshake {version}"
        wire.ask(f"SASL_HANDSHAKE {version}", ApiKey.SASL_HANDSHAKE, version, on=on, mechanism="PLAIN")
        if version == 0:
            wire.answers["a token without a header"] = wire.exchange_token(ALICE, on=on)
        else:
            token(wire, "after this handshake", ALICE, on=on)
        wire.ask(f"logged in by handshake {version}", ApiKey.LIST_GROUPS, 0, on=on)
    for version in versions(ApiKey.SASL_AUTHENTICATE):
        on = f"authenticate {version}"
        handshake(wire, on)
        token(wire, f"SASL_AUTHENTICATE {version}", ALICE, on=on, version=version)
        wire.ask(f"logged in by token {version}", ApiKey.LIST_GROUPS, 0, on=on)


def logins_story(wire: Wire) -> None:
    """What is refused before, during and after a login."""
    for mechanism in ("GSSAPI", "plain", ""):
        on = f"mechanism {mechanism!r}"
        wire.ask(on, ApiKey.SASL_HANDSHAKE, 1, on=on, mechanism=mechanism)
        wire.note_whether_closed(f"{on}, after it", on=on)
    tokens = {
        "a wrong password": b"\0alice\0wrong",
        "an unknown user": b"\0nobody\0secret",
        "another authorization": b"bob\0alice\0secret",
        "its own authorization": b"alice\0alice\0secret",
        "no password": b"\0alice\0",
        "two parts": b"alice\0secret",
        "four parts": b"\0alice\0secret\0",
        "no text": b"\0alice\0\xff",
        "nothing": b"",
    }
    for label, given in tokens.items():
        handshake(wire, label)
        token(wire, label, given, on=label)
        wire.note_whether_closed(f"{label}, after it", on=label)
    handshake(wire, "scram", "SCRAM-SHA-256")
    token(wire, "a message that is not SCRAM's", ALICE, on="scram")
    handshake(wire, "channel", "SCRAM-SHA-256")
    token(wire, "channel binding", b"y,,n=alice,r=abc", on="channel")

    for version in (0, 1):
        on = f"early {version}"
        wire.ask(f"a request before the login, {version}", ApiKey.LIST_GROUPS, version, on=on)
    wire.ask("a token before a handshake", ApiKey.SASL_AUTHENTICATE, 1, on="token", auth_bytes=ALICE)
    handshake(wire, "among")
    wire.ask("a request among the tokens", ApiKey.LIST_GROUPS, 4, on="among")
    wire.note_whether_closed("a request among the tokens, after it", on="among")

    wire.ask_quietly(ApiKey.API_VERSIONS, 3, on="asks", client_software_name="a", client_software_version="1")
    wire.ask("a handshake behind ApiVersions", ApiKey.SASL_HANDSHAKE, 1, on="asks", mechanism="PLAIN")
    wire.ask_quietly(ApiKey.API_VERSIONS, 0, on="twice")
    wire.ask("ApiVersions a second time", ApiKey.API_VERSIONS, 0, on="twice")
    handshake(wire, "handshakes")
    wire.ask("a second handshake", ApiKey.SASL_HANDSHAKE, 1, on="handshakes", mechanism="PLAIN")

    handshake(wire, "in")
    token(wire, "logged in", ALICE, on="in")
    wire.ask("a token without a handshake", ApiKey.SASL_AUTHENTICATE, 1, on="in", auth_bytes=ALICE)
    wire.ask("a handshake at once", ApiKey.SASL_HANDSHAKE, 1, on="in", mechanism="PLAIN")
    token(wire, "renewed at once", ALICE, on="in")
    wire.ask("a second one at once", ApiKey.SASL_HANDSHAKE, 1, on="in", mechanism="PLAIN")
    time.sleep(1.1)
    wire.ask("a handshake after a second", ApiKey.SASL_HANDSHAKE, 1, on="in", mechanism="PLAIN")
    token(wire, "renewed", ALICE, on="in")
    time.sleep(1.1)
    wire.ask(
        "a handshake for another mechanism", ApiKey.SASL_HANDSHAKE, 1, on="in", mechanism="SCRAM-SHA-256"
    )
    token(wire, "a token for another mechanism", b"n,,n=alice,r=abc", on="in")
    for label, given in (("another user", b"\0admin\0admin"), ("a wrong password", b"\0alice\0wrong")):
        on = f"renews as {label}"
        handshake(wire, on)
        wire.ask_quietly(ApiKey.SASL_AUTHENTICATE, 2, on=on, auth_bytes=ALICE)
        time.sleep(1.1)
        handshake(wire, on)
        token(wire, on, given, on=on)


# --- users of SCRAM -----------------------------------------------------------------------------------------


def upsertion(
    name: str, mechanism: int = SHA_256, iterations: int = 4096, **changes: bytes
) -> dict[str, Any]:
    secrets = {"salt": b"salt", "salted_password": b"p" * 32, **changes}
    return {"name": name, "mechanism": mechanism, "iterations": iterations, **secrets}


def _by_user(answer: Any) -> list[list[Any]]:
    """Kafka's order is that of a hash table."""
    return sorted(
        [
            one.user,
            int(one.error_code),
            sorted(
                [int(info.mechanism), int(info.iterations)] for info in getattr(one, "credential_infos", ())
            ),
        ]
        for one in answer.results
    )


def described_users(wire: Wire, *names: str, is_null: bool = False) -> list[list[Any]]:
    users = None if is_null else [{"name": name} for name in names]
    return _by_user(wire.ask_quietly(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=users))


def alter_users(wire: Wire, *upsertions: dict[str, Any], deletions: list[tuple[str, int]]) -> list[list[Any]]:
    deleted = [{"name": name, "mechanism": mechanism} for name, mechanism in deletions]
    return _by_user(
        wire.ask_quietly(
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, upsertions=list(upsertions), deletions=deleted
        )
    )


def settled_users(wire: Wire, wanted: int) -> list[list[Any]]:
    """All users, once there are so many credentials: brokers follow the controller."""
    ends = time.monotonic() + APPLIED_SECONDS_MAX
    while True:
        found = described_users(wire, is_null=True)
        if sum(len(one[2]) for one in found) == wanted:
            return found
        assert time.monotonic() < ends, found
        time.sleep(0.05)


def users_sweep(wire: Wire) -> None:
    wire.ask(
        "ALTER_USER_SCRAM_CREDENTIALS 0",
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        upsertions=[upsertion("alice")],
        deletions=[],
    )
    settled_users(wire, 1)
    wire.ask("DESCRIBE_USER_SCRAM_CREDENTIALS 0", ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=None)


def users_story(wire: Wire) -> None:
    """What may be set, and what is said of it."""
    wire.answers["nobody"] = settled_users(wire, 0)
    wire.answers["set"] = alter_users(
        wire,
        upsertion("a"),
        upsertion("b c/é*", SHA_512, 16384, salted_password=b"p" * 64),
        upsertion("", SHA_256),
        upsertion("no such mechanism", 7),
        upsertion("mechanism 0", 0),
        upsertion("too few", iterations=4095),
        upsertion("too many", iterations=16385),
        deletions=[("nobody", SHA_256), ("", SHA_512), ("no such mechanism either", 0)],
    )
    wire.answers["all"] = settled_users(wire, 2)
    wire.answers["twice in a request"] = alter_users(
        wire,
        upsertion("t"),
        upsertion("t", SHA_512),
        upsertion("u"),
        deletions=[("a", SHA_256), ("a", SHA_512)],
    )
    wire.answers["all after that"] = settled_users(wire, 3)
    wire.answers["described by name"] = described_users(wire, "u", "nobody", "u", "a")
    wire.answers["described by no name"] = described_users(wire)
    wire.answers["described by an empty name"] = described_users(wire, "")
    wire.answers["another mechanism"] = alter_users(wire, upsertion("a", SHA_512), deletions=[])
    wire.answers["both"] = settled_users(wire, 4)
    wire.answers["deleted"] = alter_users(wire, deletions=[("a", SHA_256), ("u", SHA_512)])
    wire.answers["left"] = settled_users(wire, 3)
    wire.ask("a handshake where nobody logs in", ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
    wire.ask("a token where nobody logs in", ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=ALICE)


STORIES: Final = {"logins": logins_story, "scram-users": users_story}
VERSIONS: Final = {"logins-in-every-version": logins_sweep, "scram-users-in-every-version": users_sweep}
SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "logins": WITH_LOGINS,
    "logins-in-every-version": WITH_LOGINS,
}
