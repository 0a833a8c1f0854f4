"""The logins of one listener: its mechanisms with their settings, and where users are found."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.foundation.errors import SettingError
from odradek.foundation.protection import SASL_MECHANISMS
from odradek.security.jaas import KEY, parse_jaas
from odradek.security.sasl import NewExchange
from odradek.security.sasl_plain import PlainExchange
from odradek.security.sasl_scram import FindCredential, ScramExchange

if TYPE_CHECKING:
    from odradek.foundation.settings import Settings

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


def listener_sasl(settings: Settings, listener_name: str, find: FindCredential) -> ListenerSasl:
    """The logins of a listener, with SCRAM's credentials from `find`. Raises SettingError where they cannot work."""
    names = settings.listener_value(listener_name, "sasl.enabled.mechanisms")
    if not names:
        raise SettingError(f"listener {listener_name}: sasl.enabled.mechanisms is empty; {_choose()}")
    for name in names:
        if name not in SASL_MECHANISMS:
            raise SettingError(
                f"listener {listener_name}: sasl.enabled.mechanisms has {name}, which is not served; {_choose()}. "
                "The default is GSSAPI (Kerberos)"
            )
    delay_ms = settings.connection_failed_authentication_delay_ms
    if 0 <= settings.connections_max_idle_ms <= delay_ms:
        raise SettingError(
            f"connection.failed.authentication.delay.ms={delay_ms} must be below connections.max.idle.ms="
            f"{settings.connections_max_idle_ms}"
        )
    size = settings.listener_value(listener_name, "sasl.server.max.receive.size")
    return ListenerSasl(
        {name: _mechanism(settings, listener_name, name, find) for name in names},
        request_bytes_max=min(size, settings.socket_request_max_bytes),
        failure_delay_ms=delay_ms,
    )


def _choose() -> str:
    return f"choose from {', '.join(SASL_MECHANISMS)}"


def _mechanism(settings: Settings, listener_name: str, name: str, find: FindCredential) -> Mechanism:
    lifetime = settings.listener_value(listener_name, "connections.max.reauth.ms", mechanism=name)
    given = settings.listener_value(listener_name, KEY, mechanism=name, is_own=True)
    key = f"listener.name.{listener_name.lower()}.{name.lower()}.{KEY}"
    # Also for SCRAM, whose users are elsewhere: a module that is not loaded must not be accepted.
    entry = parse_jaas(given, key=key, mechanism=name) if given else None
    if name != "PLAIN":
        return Mechanism(partial(ScramExchange, name, find), lifetime)
    if entry is None:
        raise SettingError(f"listener {listener_name} has PLAIN and no users; give them in {key}")
    passwords = {
        option.removeprefix(_USER_PREFIX): secret
        for option, secret in entry.options.items()
        if option.startswith(_USER_PREFIX)
    }
    if not passwords or not all(user and secret for user, secret in passwords.items()):
        raise SettingError(f'{key} needs a name and a password for each user, as user_alice="…"')
    return Mechanism(partial(PlainExchange, passwords), lifetime)
