"""Authorization: access control lists decide what each principal may do."""

from __future__ import annotations

from typing import Final

from odradek.foundation.settings.declaration import OneOf, boolean, text

# Kafka's authorizer with KRaft, and its authorizer with ZooKeeper: both name the same model here.
AUTHORIZERS: Final = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)


class Principals:
    """Principals separated by semicolons: names of certificates have commas."""

    __slots__ = ()

    def check(self, value: str) -> str | None:
        """Why `value` is refused, or None."""
        for one in filter(None, map(str.strip, value.split(";"))):
            kind, _, name = one.partition(":")
            if not kind or not name:
                return f"{self} ({one!r} is no principal)"
        return None

    def __str__(self) -> str:
        return "principals as User:NAME, separated by semicolons"


class AuthorizationSettings:
    """Without an authorizer every client may do everything."""

    authorizer_class_name: str = text(
        "",
        "Whether access control lists decide what each principal may do: by Kafka's names of its authorizers.",
        OneOf("", *AUTHORIZERS),
    )
    super_users: str = text("", "Principals that may do everything.", Principals())
    allow_everyone_if_no_acl_found: bool = boolean(
        False, "Whether every principal may use a resource that no access control list is about."
    )
