"""The broker's settings: Kafka's `server.properties` keys as one frozen object.

`Settings(entries)` reads texts by key. It refuses wrong values, all of them in one error, before anything is written.
It also refuses values that promise missing protection (`protection`), and warns of unknown keys. Values are attributes
named as the keys, with underscores: `settings.log_segment_bytes` (`setting_values`).

`foundation.settings.areas` declares the keys. Defaults of topics are in `metadata.image.configs`, and changes while
the broker runs in `metadata.image.dynamic_settings`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NoReturn

from odradek.foundation.compaction import compaction_warning
from odradek.foundation.endpoints import Endpoint
from odradek.foundation.errors import SettingError
from odradek.foundation.settings.areas.protection import LISTENER_PREFIX, protection_setting_of
from odradek.foundation.settings.broker_checks import contradictions
from odradek.foundation.settings.broker_values import AREAS, SettingValues
from odradek.foundation.settings.declaration import Setting, SettingValue
from odradek.foundation.settings.protection import missing_protections, refusal, without_kept
from odradek.foundation.words import nearest_name

# Every key that this broker uses, in the order of declaration.
USED: Final[Mapping[str, Setting]] = MappingProxyType(
    {
        setting.key: setting
        for area in AREAS
        for setting in vars(area).values()
        if isinstance(setting, Setting)
    }
)

_DEFAULTS: Final = {setting.attribute: setting.default for setting in USED.values()}


def all_settings() -> Mapping[str, Setting]:
    """Every key that Kafka 4.1 knows, by key: those this broker uses, then those it does not."""
    return {**USED, **_load_unused()}


def _load_unused() -> Mapping[str, Setting]:
    """Loaded late: a start whose keys are all used ones does not need two hundred more."""
    from odradek.foundation.settings.areas.unused import UNUSED

    return UNUSED


def find_setting(key: str) -> Setting | None:
    """The declaration of `key`, or None for a key that Kafka 4.1 does not know.

    A key for one listener, as `listener.name.internal.ssl.keystore.location`, is declared by what follows the name.
    """
    if key in USED:
        return USED[key]
    unused = _load_unused()
    if key.startswith(LISTENER_PREFIX):
        _, _, base = key.removeprefix(LISTENER_PREFIX).partition(".")
        return USED.get(base) or unused.get(base) or _mechanism_setting(base)
    return unused.get(key)


def _mechanism_setting(base: str) -> Setting | None:
    """`scram-sha-256.sasl.jaas.config`: a key for one SASL mechanism of a listener."""
    _, _, key = base.partition(".")
    return (USED.get(key) or _load_unused().get(key)) if key.startswith(("sasl.", "connections.")) else None


class Settings(SettingValues):
    """All settings of one broker, checked and immutable. `given` are the original entries. `warnings` name unknown
    keys, and values that this broker does not act on yet, one sentence each. `unused` are keys of Kafka's that this
    broker does not need.
    """

    given: Mapping[str, str]
    warnings: tuple[str, ...]
    unused: tuple[str, ...]

    def __init__(self, entries: Mapping[str, str] | None = None) -> None:
        """Read `entries`, texts by key. Raises SettingError that lists every mistake."""
        given = dict(entries or {})
        values: dict[str, SettingValue] = dict(_DEFAULTS)
        problems: list[str] = []
        warnings: list[str] = []
        unused: list[str] = []
        for key, text in given.items():
            setting = find_setting(key)
            if setting is None and protection_setting_of(key) is not None:
                unused.append(key)
                continue
            if setting is None:
                _note_unknown(key, warnings=warnings, unused=unused)
                continue
            try:
                value = setting.parse(text)
            except SettingError as error:
                problems.append(str(error))
                continue
            if not setting.used or key.startswith(LISTENER_PREFIX):
                unused.append(key)
            else:
                values[setting.attribute] = value
        warning = compaction_warning(values["log_cleanup_policy"], is_enabled=values["log_cleaner_enable"])
        if warning is not None:
            warnings.append(f"log.{warning}")
        values.update(given=MappingProxyType(given), warnings=tuple(warnings))
        self.__dict__.update(values)
        listeners = find_listeners(self)
        self.__dict__["unused"] = tuple(without_kept(unused, listeners))
        if not problems:
            problems.extend(contradictions(self))
        broken = missing_protections(given, find_setting, listeners=listeners)
        if broken:
            problems.append(refusal(broken))
        if problems:
            raise _setting_error(problems)

    @classmethod
    def of(cls, **values: object) -> Settings:
        """Settings from Python names and values, as `Settings.of(log_segment_bytes=1 << 20)`; for tests and tools.

        Raises SettingError for a name that is no setting, as well as for wrong values.
        """
        texts: dict[str, str] = {}
        for attribute, value in values.items():
            setting = find_setting(attribute.replace("_", "."))
            if setting is None:
                raise SettingError(f"{attribute} is not the name of a setting")
            text = setting.text(tuple(value) if isinstance(value, list) else value)
            if text is not None:
                texts[setting.key] = text
        return cls(texts)

    def with_overrides(self, overrides: Mapping[str, str]) -> Settings:
        """These settings with some keys replaced. Raises SettingError as the constructor does."""
        return Settings({**self.given, **overrides})

    def __setattr__(self, attribute: str, value: object) -> NoReturn:
        raise AttributeError(f"settings are frozen: {attribute} cannot be set; use with_overrides")

    def __delattr__(self, attribute: str) -> NoReturn:
        raise AttributeError(f"settings are frozen: {attribute} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Settings) and self.given == other.given

    def __hash__(self) -> int:
        return hash(frozenset(self.given.items()))

    def __repr__(self) -> str:
        shown = ", ".join(f"{key}={self.show_value(key)}" for key in self.given)
        return f"Settings({shown})"

    def show_value(self, key: str) -> str:
        """The text given for `key`, for a log line: a secret, or a key of unknown nature, is hidden."""
        setting = find_setting(key)
        return "[hidden]" if setting is None or setting.is_sensitive else self.given[key]

    @property
    def listener_between_brokers(self) -> str:
        """The name of the listener at which brokers reach each other."""
        return (self.inter_broker_listener_name or self.security_inter_broker_protocol).upper()

    def listener_value(
        self, listener_name: str, key: str, *, mechanism: str = "", is_own: bool = False
    ) -> SettingValue:
        """The value of a used `key` for one listener: of `listener.name.NAME.KEY`, else of `key`. With a SASL
        `mechanism`, `listener.name.NAME.MECHANISM.KEY` goes before both.

        With `is_own` only the most special form counts, and without it the default.
        """
        setting = USED[key]
        prefix = f"{LISTENER_PREFIX}{listener_name.lower()}."
        special = f"{prefix}{mechanism.lower()}.{key}" if mechanism else prefix + key
        for form in (special,) if is_own else (special, prefix + key):
            if form in self.given:
                return setting.parse(self.given[form])
        return setting.default if is_own else getattr(self, setting.attribute)

    def text(self, key: str) -> str | None:
        """The value of `key` as text, or None when it has none. Raises KeyError for an unknown key."""
        if key in USED:
            setting = USED[key]
            return setting.text(getattr(self, setting.attribute))
        return self.given.get(key, all_settings()[key].default_text)


def find_listeners(settings: SettingValues) -> tuple[Endpoint, ...]:
    """The listeners, the controllers' that a broker connects to, and that of --admin. Empty if they cannot be read,
    which is a mistake of its own.
    """
    try:
        found = list(settings.listener_endpoints)
        for further in (settings.controller_endpoint, settings.admin_endpoint):
            if further is not None and further.listener_name not in _names(found):
                found.append(further)
        return tuple(found)
    except SettingError:
        return ()


def _names(endpoints: Iterable[Endpoint]) -> list[str]:
    return [endpoint.listener_name for endpoint in endpoints]


def _note_unknown(key: str, *, warnings: list[str], unused: list[str]) -> None:
    from odradek.foundation.settings.areas.unused import RETIRED_PREFIXES

    if key.startswith(RETIRED_PREFIXES):
        unused.append(key)
        return
    nearest = nearest_name(key, all_settings())
    hint = "" if nearest is None else f"; did you mean {nearest}?"
    warnings.append(f"unknown setting {key} is ignored{hint}")


def _setting_error(problems: list[str]) -> SettingError:
    if len(problems) == 1:
        return SettingError(problems[0])
    return SettingError("\n  ".join([f"{len(problems)} settings cannot be used:", *problems]))
