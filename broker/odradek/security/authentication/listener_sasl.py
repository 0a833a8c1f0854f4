"""The logins of one listener: its mechanisms with their settings, and where users are found."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from hmac import compare_digest
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.foundation.errors import SettingError
from odradek.foundation.protection import SASL_MECHANISMS
from odradek.security.authentication.jaas import KEY, JaasEntry, parse_jaas
from odradek.security.authentication.sasl import Login, LoginRefused, NewExchange, check_authorization
from odradek.security.authentication.sasl_scram import FindCredential, FindToken, ScramExchange
from odradek.security.authentication.unknown_users import UnknownUsers

if TYPE_CHECKING:
    from odradek.foundation.settings import Settings
    from odradek.security.authentication.key_set import KeySet

_PARTS = 3

_USER_PREFIX: Final = "user_"


class Mechanism(NamedTuple):
    """One mechanism of a listener. `lifetime_ms_max` is how long a login lasts, 0 without an end."""

    new_exchange: NewExchange
    lifetime_ms_max: int


class ListenerSasl(NamedTuple):
    """`request_bytes_max` bounds the requests of a client that has not logged in."""

    mechanisms: Mapping[str, Mechanism]
    request_bytes_max: int
    failure_delay_ms: int
    key_set: KeySet | None = None
    """The keys of OAUTHBEARER, which change while the broker runs."""


def listener_sasl(
    settings: Settings,
    listener_name: str,
    find: FindCredential,
    find_token: FindToken | None = None,
    *,
    unknown_users: UnknownUsers | None = None,
) -> ListenerSasl:
    """The logins of a listener, with SCRAM's credentials from `find`, and those of delegation tokens.

    Raises SettingError where they cannot work.
    """
    names = settings.listener_value(listener_name, "sasl.enabled.mechanisms")
    if not names:
        raise SettingError(f"listener {listener_name}: sasl.enabled.mechanisms is empty; {_choose()}")
    for name in names:
        if name not in SASL_MECHANISMS:
            raise SettingError(
                f"listener {listener_name}: sasl.enabled.mechanisms has {name}, which is not served; {_choose()}. "
                "The default is GSSAPI (Kerberos)"
            )
    _refuse_without_effect(settings, listener_name)
    delay_ms = settings.connection_failed_authentication_delay_ms
    if 0 <= settings.connections_max_idle_ms <= delay_ms:
        raise SettingError(
            f"connection.failed.authentication.delay.ms={delay_ms} must be below connections.max.idle.ms="
            f"{settings.connections_max_idle_ms}"
        )
    size = settings.listener_value(listener_name, "sasl.server.max.receive.size")
    mechanisms: dict[str, Mechanism] = {}
    key_set: KeySet | None = None
    for name in names:
        entry = _login_module(settings, listener_name, name)
        if name == "OAUTHBEARER":
            # Its packages are loaded only where it is enabled.
            from odradek.security.authentication.listener_oauth import listener_oauth

            new_exchange, key_set = listener_oauth(settings, listener_name)
        elif name == "PLAIN":
            new_exchange = partial(PlainExchange, _passwords(entry, listener_name))
        else:
            unknown = unknown_users or UnknownUsers()
            new_exchange = partial(ScramExchange, name, find, find_token, unknown_users=unknown)
        lifetime = settings.listener_value(listener_name, "connections.max.reauth.ms", mechanism=name)
        mechanisms[name] = Mechanism(new_exchange, lifetime)
    return ListenerSasl(
        mechanisms,
        request_bytes_max=min(size, settings.socket_request_max_bytes),
        failure_delay_ms=delay_ms,
        key_set=key_set,
    )


def _choose() -> str:
    return f"choose from {', '.join(SASL_MECHANISMS)}"


def _refuse_without_effect(settings: Settings, listener_name: str) -> None:
    """Kafka ignores a login module that is given for no mechanism. Its users could not log in, or other ones could."""
    for key in (KEY, f"listener.name.{listener_name.lower()}.{KEY}"):
        if settings.given.get(key):
            raise SettingError(
                f"{key} has no effect at listener {listener_name}, in Kafka neither: give it for a mechanism, as "
                f"{_key(listener_name, 'PLAIN')}"
            )


def _key(listener_name: str, mechanism: str) -> str:
    return f"listener.name.{listener_name.lower()}.{mechanism.lower()}.{KEY}"


def _login_module(settings: Settings, listener_name: str, mechanism: str) -> JaasEntry | None:
    """Also for mechanisms whose users are elsewhere: a module that is not loaded must not be accepted."""
    given = settings.listener_value(listener_name, KEY, mechanism=mechanism, is_own=True)
    key = _key(listener_name, mechanism)
    return parse_jaas(given, key=key, mechanism=mechanism) if given else None


def _passwords(entry: JaasEntry | None, listener_name: str) -> dict[str, str]:
    """The users of PLAIN."""
    key = _key(listener_name, "PLAIN")
    if entry is None:
        raise SettingError(f"listener {listener_name} has PLAIN and no users; give them in {key}")
    passwords = {
        option.removeprefix(_USER_PREFIX): secret
        for option, secret in entry.options.items()
        if option.startswith(_USER_PREFIX)
    }
    if not passwords or not all(user and secret for user, secret in passwords.items()):
        raise SettingError(f'{key} needs a name and a password for each user, as user_alice="…"')
    return passwords


class PlainExchange:
    """PLAIN (RFC 4616): one token with the user and the password, both known from `sasl.jaas.config`.

    Compares in constant time, also for users that do not exist. Names and passwords are compared byte by byte: Kafka
    prepares none of them.
    """

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    def answer(self, token: bytes) -> tuple[bytes, Login | None]:
        parts = token.split(b"\0")
        if len(parts) != _PARTS:
            raise LoginRefused(f"the token of PLAIN has {len(parts)} parts instead of {_PARTS}")
        try:
            authorization, user, password = (part.decode() for part in parts)
        except UnicodeDecodeError:
            raise LoginRefused("the token of PLAIN is not UTF-8") from None
        if not user or not password:
            raise LoginRefused("the token of PLAIN has no user or no password")
        known = self._passwords.get(user)
        is_equal = compare_digest(
            password.encode(), (known if known is not None else password + "?").encode()
        )
        if known is None or not is_equal:
            raise LoginRefused(f"the user {user!r} is unknown, or the password is wrong")
        check_authorization(user, authorization)
        return b"", Login(user)
