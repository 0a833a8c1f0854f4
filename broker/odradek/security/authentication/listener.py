"""The logins of one listener: its mechanisms with their settings, and where users are found."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.foundation.errors import SettingError
from odradek.foundation.settings.protection import SASL_MECHANISMS
from odradek.security.authentication.exchange import NewExchange
from odradek.security.authentication.jaas import KEY, JaasEntry, parse_jaas
from odradek.security.authentication.plain import PlainExchange
from odradek.security.authentication.scram import FindCredential, FindToken, ScramExchange
from odradek.security.authentication.scram_users import UnknownUsers

if TYPE_CHECKING:
    from odradek.foundation.settings.broker_settings import Settings
    from odradek.foundation.settings.declaration import SettingValue
    from odradek.security.authentication.oauth_documents import KeySet

logger = logging.getLogger(__name__)
MECHANISM: Final = "OAUTHBEARER"
_PREFIX: Final = "sasl.oauthbearer."
_URL: Final = f"{_PREFIX}jwks.endpoint.url"
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
            new_exchange, key_set = listener_oauth(settings, listener_name)
        elif name == "PLAIN":
            new_exchange = partial(PlainExchange, _passwords(entry, listener_name))
        else:
            made_up = (unknown_users or UnknownUsers()).credential
            new_exchange = partial(ScramExchange, name, find, find_token, made_up=made_up)
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


def listener_oauth(
    settings: Settings, listener_name: str, *, now: Callable[[], float] = time.time
) -> tuple[NewExchange, KeySet]:
    """The exchange of new logins, and the keys to follow. Raises SettingError, also without a source of keys.

    `now` is in seconds since 1970.
    """
    # Loaded only where it is enabled, since it reads documents over HTTP.
    from odradek.security.authentication.oauth_documents import KeySet, KeySetOptions, check_address
    from odradek.security.authentication.oauthbearer import OauthExchange, TokenCheck, TokenRules

    def value(name: str) -> SettingValue:
        return settings.listener_value(listener_name, _PREFIX + name, mechanism=MECHANISM)

    url = value("jwks.endpoint.url")
    if not url:
        raise SettingError(
            f"listener {listener_name} has {MECHANISM} and no keys to check tokens with; give {_URL}"
        )
    rules = TokenRules(
        audience=tuple(value("expected.audience") or ()),
        issuer=value("expected.issuer") or "",
        user_claim=value("sub.claim.name"),
        scope_claim=value("scope.claim.name"),
        clock_skew_seconds=max(value("clock.skew.seconds"), 0),
    )
    if not (rules.audience and rules.issuer):
        logger.warning(
            "listener %s takes tokens of any %s that its keys have signed; "
            "set %sexpected.issuer and %sexpected.audience",
            *(listener_name, "audience" if rules.issuer else "issuer", _PREFIX, _PREFIX),
        )
    keys = KeySet(
        KeySetOptions(
            listener_name,
            check_address(url, key=_URL),
            refresh_ms=value("jwks.endpoint.refresh.ms"),
            retry_backoff_ms=value("jwks.endpoint.retry.backoff.ms"),
            retry_backoff_max_ms=value("jwks.endpoint.retry.backoff.max.ms"),
        ),
        now=time.monotonic,
    )
    return partial(OauthExchange, TokenCheck(rules, keys.find, now=now).login), keys
