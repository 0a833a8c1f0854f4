"""Stories of delegation tokens: made, renewed, ended and described, by clients that logged in and others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from odradek.wire.protocol.api import ApiKey
from tests.compat.golden.stories_logins import ALICE, WITH_LOGINS, handshake
from tests.compat.golden.stories_versions import versions
from tests.compat.golden.wire import Wire
from tests.support.polling import wait_until

ADMIN: Final = b"\0admin\0admin"
NO_HMAC: Final = b"x" * 64
HOUR_MS: Final = 3_600_000
_WITH_TOKENS: Final = {**WITH_LOGINS, "delegation.token.secret.key": "the-secret"}


def log_in(wire: Wire, on: str, token: bytes = ALICE) -> None:
    handshake(wire, on)
    wire.ask_quietly(ApiKey.SASL_AUTHENTICATE, 2, on=on, auth_bytes=token)


def user(name: str, kind: str = "User") -> dict[str, str]:
    return {"principal_type": kind, "principal_name": name}


def create(wire: Wire, label: str, *, on: str = "alice", version: int = 3, **fields: Any) -> Any:
    given = {"renewers": [], "max_lifetime": HOUR_MS, **fields}
    return wire.ask(label, ApiKey.CREATE_DELEGATION_TOKEN, version, on=on, **given)


def described(wire: Wire, *, on: str = "alice", owners: list[dict[str, str]] | None = None) -> Any:
    """The error, and the owner, the requester and the renewers of each token, in an order of ours."""
    answer = wire.ask_quietly(ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, on=on, owners=owners)
    return [
        int(answer.error_code),
        sorted(
            [
                one.principal_name,
                one.token_requester_principal_name,
                [renewer.principal_name for renewer in one.renewers],
                len(one.hmac),
            ]
            for one in answer.tokens
        ),
    ]


def settled(wire: Wire, wanted: int) -> None:
    wait_until(f"{wanted} tokens are there", lambda: described(wire)[1], lambda found: len(found) == wanted)


def tokens_sweep(wire: Wire) -> None:
    log_in(wire, "alice")
    for version in versions(ApiKey.CREATE_DELEGATION_TOKEN):
        made = create(wire, f"CREATE_DELEGATION_TOKEN {version}", version=version, renewers=[user("bob")])
        settled(wire, 1)
        wire.ask(
            f"DESCRIBE_DELEGATION_TOKEN {version}",
            ApiKey.DESCRIBE_DELEGATION_TOKEN,
            version,
            on="alice",
            owners=[user("alice")],
        )
        if version in versions(ApiKey.RENEW_DELEGATION_TOKEN):
            renew = {"hmac": made.hmac, "renew_period": HOUR_MS}
            wire.ask(
                f"RENEW_DELEGATION_TOKEN {version}",
                ApiKey.RENEW_DELEGATION_TOKEN,
                version,
                on="alice",
                **renew,
            )
            expire = {"hmac": made.hmac, "expiry_time_period": -1}
            wire.ask(
                f"EXPIRE_DELEGATION_TOKEN {version}",
                ApiKey.EXPIRE_DELEGATION_TOKEN,
                version,
                on="alice",
                **expire,
            )
            settled(wire, 0)


def tokens_story(wire: Wire) -> None:
    """What is refused, and whose tokens are seen."""
    log_in(wire, "alice")
    log_in(wire, "admin", ADMIN)
    create(wire, "a renewer that is no user", renewers=[user("g", "Group")])
    create(wire, "without an end", max_lifetime=-1)
    made = create(wire, "with renewers", renewers=[user("admin"), user("bob")])
    create(wire, "for another user", on="admin", owner_principal_type="User", owner_principal_name="bob")
    # Without an authorizer every client sees all.
    settled(wire, 3)
    wire.answers["all of alice"] = described(wire)
    wire.answers["all of admin"] = described(wire, on="admin")
    wire.answers["those of alice for admin"] = described(wire, on="admin", owners=[user("alice")])
    wire.answers["those of bob for alice"] = described(wire, owners=[user("bob")])
    wire.answers["those of no one"] = described(wire, owners=[])

    def renew(label: str, *, on: str = "alice", hmac: bytes = made.hmac, period: int = HOUR_MS) -> None:
        wire.ask(label, ApiKey.RENEW_DELEGATION_TOKEN, 2, on=on, hmac=hmac, renew_period=period)

    def expire(label: str, *, on: str = "alice", hmac: bytes = made.hmac, period: int = HOUR_MS) -> None:
        wire.ask(label, ApiKey.EXPIRE_DELEGATION_TOKEN, 2, on=on, hmac=hmac, expiry_time_period=period)

    renew("renewed by a renewer", on="admin")
    renew("renewed by default", period=-1)
    renew("what is no token", hmac=NO_HMAC)
    expire("what is no token to end", hmac=NO_HMAC)
    expire("ends later", period=2 * HOUR_MS)
    expire("ends at once", on="admin", period=-1)
    settled(wire, 2)
    renew("renewed after its end")
    create(wire, "an owner that is no user", owner_principal_type="Group", owner_principal_name="g")


def no_tokens_story(wire: Wire) -> None:
    """Without a secret, and without a login."""
    create(wire, "not logged in", on="main")
    wire.ask("described", ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, owners=None)
    wire.ask("renewed", ApiKey.RENEW_DELEGATION_TOKEN, 2, hmac=NO_HMAC, renew_period=1)
    wire.ask("ended", ApiKey.EXPIRE_DELEGATION_TOKEN, 2, hmac=NO_HMAC, expiry_time_period=1)


STORIES: Final = {"tokens": tokens_story, "no-tokens": no_tokens_story}
VERSIONS: Final = {"tokens-in-every-version": tokens_sweep}
SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "tokens": _WITH_TOKENS,
    "tokens-in-every-version": _WITH_TOKENS,
}
