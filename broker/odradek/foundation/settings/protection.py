"""Refuses settings that promise protection which this broker does not have; the table is `broker_settings.protection`.

A value that promises nothing is no obstacle: Kafka's default, an empty one, or one that the table calls harmless. All
refusals share one wording, so that a start, a change while the broker runs and a Kubernetes resource say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from odradek.foundation.endpoints import Endpoint
from odradek.foundation.errors import SettingError
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.settings.areas.protection import (
    KEPT_BY_LISTENERS,
    KEPT_BY_SASL,
    KEPT_BY_TLS,
    LISTENER_PREFIX,
    STORES_OF_LISTENERS,
    ProtectionSetting,
    protection_setting_of,
)
from odradek.foundation.settings.declaration import Setting

WITH_TLS: Final = ("SSL", "SASL_SSL")
WITH_SASL: Final = ("SASL_PLAINTEXT", "SASL_SSL")
SASL_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

_BETWEEN_BROKERS: Final = "security.inter.broker.protocol"

FindSetting = Callable[[str], Setting | None]

_WHY: Final = "protection that this broker does not have, so every client that reaches it may do everything"
_WAY_OUT: Final = (
    "To start without protection, do so in a copy of the file, which keeps the original for Kafka. "
    "Then let only trusted clients reach the listeners"
)


class MissingProtection(NamedTuple):
    """`shown` is KEY=VALUE without secrets. `asks_for` is the protection, `way_out` the value that asks for none."""

    shown: str
    asks_for: str
    way_out: str

    def __str__(self) -> str:
        """The refusal of this setting alone, for a change of a running broker or a Kubernetes resource."""
        return f"{self.shown} ({self.asks_for}: {self.way_out}) promises {_WHY}"


def missing_protection(key: str, text: str, find: FindSetting) -> MissingProtection | None:
    """The protection that `text` asks for and this broker lacks; None when it asks for none.

    `find` returns the declaration of a key, for its default. A value that cannot be parsed is refused elsewhere.
    """
    promise = protection_setting_of(key)
    value = text.strip()
    if promise is None or not value or value.lower() == promise.harmless.lower():
        return None
    setting = find(key)
    if setting is not None:
        try:
            if setting.parse(value) == setting.default:
                return None
        except SettingError:
            return None
    # The value of an undeclared key may be a secret.
    is_hidden = promise.is_family if setting is None else setting.is_sensitive
    return _missing_protection(promise, f"{key}={'[hidden]' if is_hidden else value}")


def _missing_protection(promise: ProtectionSetting, shown: str) -> MissingProtection:
    way_out = f"set {promise.harmless} or remove it" if promise.harmless else "remove it"
    return MissingProtection(shown, promise.asks_for, way_out)


def refusal_of_key(promise: ProtectionSetting, key: str) -> str:
    """Why `key` is refused whatever its value, which is not known where a Kubernetes definition declares it."""
    return str(_missing_protection(promise, key))


def missing_protections(
    given: Mapping[str, str], find: FindSetting, *, listeners: Iterable[Endpoint] = ()
) -> list[MissingProtection]:
    """Every setting of `given` that promises missing protection.

    What is said about TLS and SASL is kept where a listener speaks it, and for that listener.
    """
    found = (missing_protection(key, given[key], find) for key in without_kept(given, listeners))
    return [one for one in found if one is not None]


def without_kept(keys: Iterable[str], listeners: Iterable[Endpoint]) -> list[str]:
    """The keys but for those that this broker keeps because of its listeners: about TLS and SASL."""
    protocols = {endpoint.listener_name.lower(): endpoint.security_protocol for endpoint in listeners}
    return [key for key in keys if not _is_kept(key, protocols)]


def _is_kept(key: str, protocols: Mapping[str, str]) -> bool:
    if key == _BETWEEN_BROKERS:
        # A listener of another name is found missing by `setting_checks`.
        return any(protocol != "PLAINTEXT" for protocol in protocols.values())
    if not key.startswith(LISTENER_PREFIX):
        return any(_keeps(protocol, key) for protocol in protocols.values())
    listener, _, base = key.removeprefix(LISTENER_PREFIX).partition(".")
    if base in KEPT_BY_LISTENERS:
        return listener in protocols
    protocol = protocols.get(listener, "")
    mechanism, _, of_mechanism = base.partition(".")
    is_mechanism = mechanism.upper() in SASL_MECHANISMS
    return _keeps(protocol, base) or (is_mechanism and _keeps(protocol, of_mechanism, with_tls=False))


def _keeps(protocol: str, key: str, *, with_tls: bool = True) -> bool:
    return (with_tls and protocol in WITH_TLS and key in KEPT_BY_TLS) or (
        protocol in WITH_SASL and key in KEPT_BY_SASL
    )


def without_missing_protection(
    given: Mapping[str, str], find: FindSetting, *, listeners: Iterable[Endpoint] = ()
) -> dict[str, str]:
    """The entries that promise no missing protection, of a process with these listeners."""
    promising = set(without_kept(given, listeners))
    return {
        key: text
        for key, text in given.items()
        if key not in promising or missing_protection(key, text, find) is None
    }


def is_store_of_listener(key: str) -> bool:
    """Whether the key is about a store of one listener, which may change while a broker runs."""
    base = key.removeprefix(LISTENER_PREFIX).partition(".")[2]
    return key.startswith(LISTENER_PREFIX) and base in STORES_OF_LISTENERS


def refusal(broken: Iterable[MissingProtection]) -> str:
    """One line that names all of `broken`, grouped by what they ask for, with the remedy."""
    groups: dict[tuple[str, str], list[str]] = {}
    for one in broken:
        groups.setdefault((one.asks_for, one.way_out), []).append(one.shown)
    count = sum(map(len, groups.values()))
    named = "; ".join(
        f"{', '.join(shown)} ({asks_for}: {_plural(way_out, len(shown))})"
        for (asks_for, way_out), shown in groups.items()
    )
    return f"{count} setting{' promises' if count == 1 else 's promise'} {_WHY}: {named}. {_WAY_OUT}."


def _plural(way_out: str, count: int) -> str:
    return way_out if count == 1 else way_out.replace("remove it", "remove them")
