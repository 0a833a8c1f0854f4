"""Every setting of a topic, a broker, a group or a subscription for metrics, with the source of its value.

The order of sources is Kafka's. The resource's own value is first, then this broker's dynamic value, then the dynamic
default of all brokers. The value in `server.properties` and the default are last. An entry's synonyms are all sources
that have a value, the one in force first. A secret, and a key of unknown nature, is never shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Final

from odradek.foundation.errors import SettingError
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.settings.broker_settings import (
    USED,
    Settings,
    all_settings,
    find_listeners,
    find_setting,
)
from odradek.foundation.settings.declaration import Kind, Setting
from odradek.foundation.settings.protection import without_missing_protection
from odradek.metadata.image.client_metrics_configs import CLIENT_METRICS_SETTINGS
from odradek.metadata.image.configs import TOPIC_SETTINGS, topic_value
from odradek.metadata.image.group_configs import GROUP_SETTINGS, broker_key_of, has_broker_key
from odradek.metadata.image.image import ClusterImage, ResourceKind
from odradek.metadata.image.paths import DEFAULT_BROKER


class DescribedConfigSource(IntEnum):
    """The source of a value; the numbers are those of the wire."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Synonym(NamedTuple):
    """One source that has a value for the setting. `value` is None for a secret."""

    name: str
    value: str | None
    source: DescribedConfigSource


class DescribedConfig(NamedTuple):
    """One described setting. `value` is None when there is none, or when it is a secret."""

    name: str
    value: str | None
    source: DescribedConfigSource
    is_read_only: bool
    is_sensitive: bool
    synonyms: tuple[Synonym, ...]
    kind: Kind
    doc: str


# Keys with one meaning: the other keys of each, in their order of precedence.
_BROKER_FAMILIES: Final = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_FAMILY_OF: Final = {
    key: family for family in _BROKER_FAMILIES for key in family if key != "log.flush.scheduler.interval.ms"
}


class BrokerSources:
    """The sources of broker settings, at one moment."""

    def __init__(self, static: Settings, image: ClusterImage, *, is_broker: bool = True) -> None:
        """`is_broker` is false for a controller, which may have a broker's number and not its settings."""
        self.static = static
        own_name = str(static.effective_broker_id)
        self.own = image.config(ResourceKind.BROKER, own_name) if is_broker else {}
        self.default = image.config(ResourceKind.BROKER, DEFAULT_BROKER)
        self.current = _with_overrides(static, image.broker_overrides(own_name if is_broker else None))

    def synonyms(self, key: str) -> tuple[Synonym, ...]:
        """All sources of a value for `key`, the one in force first. Keys before `key` in its family are left out."""
        names = _FAMILY_OF.get(key, (key,))
        levels: tuple[tuple[Callable[[str], str | None], DescribedConfigSource], ...] = (
            (self.own.get, DescribedConfigSource.DYNAMIC_BROKER),
            (self.default.get, DescribedConfigSource.DYNAMIC_DEFAULT_BROKER),
            (self.static.given.get, DescribedConfigSource.STATIC_BROKER),
            (self._default_text, DescribedConfigSource.DEFAULT),
        )
        found: list[Synonym] = []
        for value_of, source in levels:
            for name in names:
                text = value_of(name)
                # As in Kafka, the first value under the requested name comes first.
                if text is not None and (found or name == key):
                    found.append(Synonym(name, None if _is_secret(name) else text, source))
        return tuple(found)

    def _default_text(self, key: str) -> str | None:
        # A topic's settings have broker settings in use: the table of the others is loaded for a broker's alone.
        setting = USED.get(key) or all_settings().get(key)
        return None if setting is None else setting.default_text


def _with_overrides(static: Settings, overrides: Mapping[str, str]) -> Settings:
    kept = without_missing_protection(overrides, find_setting, listeners=find_listeners(static))
    try:
        return static.with_overrides(kept) if kept else static
    except SettingError:
        return static


def _is_secret(key: str) -> bool:
    setting = find_setting(key)
    return setting is None or setting.is_sensitive


def _select_keys(keys: Iterable[str] | None) -> Callable[[str], bool]:
    wanted = set(keys or ())
    return (lambda key: key in wanted) if wanted else (lambda key: True)


def describe_topic(
    texts: Mapping[str, str], *, sources: BrokerSources, keys: Iterable[str] | None = None
) -> list[DescribedConfig]:
    """The settings of a topic with these texts: all, or those among `keys`."""
    is_asked = _select_keys(keys)
    return [
        _topic_entry(setting, texts, sources)
        for key, setting in TOPIC_SETTINGS.items()
        if is_asked(key) and (not setting.internal or key in texts)
    ]


def _topic_entry(setting: Setting, texts: Mapping[str, str], sources: BrokerSources) -> DescribedConfig:
    value = setting.text(topic_value(setting.key, texts, settings=sources.current))
    synonyms = sources.synonyms(setting.synonyms[0]) if setting.synonyms else ()
    if setting.key in texts:
        synonyms = (Synonym(setting.key, value, DescribedConfigSource.TOPIC), *synonyms)
    return _entry(setting, value, synonyms, is_read_only=False)


def describe_broker(sources: BrokerSources, *, keys: Iterable[str] | None = None) -> list[DescribedConfig]:
    """The settings of this broker: all, or those among `keys`. They include given unknown keys, without values."""
    is_asked = _select_keys(keys)
    entries: list[DescribedConfig] = []
    given = {**sources.static.given, **sources.default, **sources.own}
    known = all_settings()
    for key, setting in known.items():
        if is_asked(key) and (not setting.internal or key in given):
            entries.append(_broker_entry(key, setting, sources))
    for key, text in given.items():
        if key not in known and is_asked(key):
            setting = find_setting(key) or Setting(Kind.UNKNOWN, None, "", key=key)
            is_secret = _is_secret(key)
            synonyms = sources.synonyms(key)
            entries.append(
                _entry(
                    setting, None if is_secret else text, synonyms, is_read_only=not setting.is_dynamic
                )._replace(name=key, is_sensitive=is_secret)
            )
    return entries


def _broker_entry(key: str, setting: Setting, sources: BrokerSources) -> DescribedConfig:
    if key in USED:
        value = sources.current.text(key)
    else:
        value = sources.own.get(
            key, sources.default.get(key, sources.static.given.get(key, setting.default_text))
        )
    synonyms = sources.synonyms(key)
    if setting.internal and setting.is_dynamic:
        # Kafka takes the throttled rates as dynamic settings without a definition: no default, and read-only.
        synonyms = tuple(one for one in synonyms if one.source is not DescribedConfigSource.DEFAULT)
        return _entry(setting, value, synonyms, is_read_only=True)
    return _entry(setting, value, synonyms, is_read_only=not setting.is_dynamic)


def describe_broker_default(
    sources: BrokerSources, *, keys: Iterable[str] | None = None
) -> list[DescribedConfig]:
    """The dynamic settings that hold for all brokers."""
    is_asked = _select_keys(keys)
    entries: list[DescribedConfig] = []
    for key, text in sources.default.items():
        setting = find_setting(key)
        if setting is None or not is_asked(key):
            continue
        synonyms = tuple(
            synonym
            for synonym in sources.synonyms(key)
            if synonym.source is DescribedConfigSource.DYNAMIC_DEFAULT_BROKER
        )
        entries.append(_entry(setting, text, synonyms, is_read_only=not setting.is_dynamic))
    return entries


def describe_group(
    texts: Mapping[str, str], *, sources: BrokerSources, keys: Iterable[str] | None = None
) -> list[DescribedConfig]:
    """The settings of a group with these texts: all, or those among `keys`.

    The broker's settings are synonyms, as since Kafka 4.3.
    """
    is_asked = _select_keys(keys)
    entries: list[DescribedConfig] = []
    for key, setting in GROUP_SETTINGS.items():
        if not is_asked(key) or (setting.internal and key not in texts):
            continue
        if has_broker_key(key):
            synonyms = sources.synonyms(broker_key_of(key))
        else:
            synonyms = (Synonym(key, setting.default_text, DescribedConfigSource.DEFAULT),)
        if key in texts:
            synonyms = (Synonym(key, texts[key], DescribedConfigSource.GROUP), *synonyms)
        entries.append(_entry(setting, synonyms[0].value, synonyms, is_read_only=False))
    return entries


def describe_client_metrics(
    texts: Mapping[str, str], *, keys: Iterable[str] | None = None
) -> list[DescribedConfig]:
    """The settings of a subscription with these texts: all, or those among `keys`."""
    is_asked = _select_keys(keys)
    return [
        _entry(
            setting,
            texts.get(key, setting.default_text),
            (Synonym(key, texts[key], DescribedConfigSource.CLIENT_METRICS),) if key in texts else (),
            is_read_only=False,
        )
        for key, setting in CLIENT_METRICS_SETTINGS.items()
        if is_asked(key)
    ]


def _entry(
    setting: Setting, value: str | None, synonyms: tuple[Synonym, ...], *, is_read_only: bool
) -> DescribedConfig:
    return DescribedConfig(
        name=setting.key,
        value=None if setting.is_sensitive else value,
        source=synonyms[0].source if synonyms else DescribedConfigSource.DEFAULT,
        is_read_only=is_read_only,
        is_sensitive=setting.is_sensitive,
        synonyms=synonyms,
        kind=setting.kind,
        doc=setting.doc,
    )
