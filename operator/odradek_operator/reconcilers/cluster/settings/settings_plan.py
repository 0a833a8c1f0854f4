"""The plan for changed settings: altered while brokers run, or by a restart, judged by what brokers have in force.

The settings in force are compared with the broker's file, not with what the operator has done. So a broker that started
from an old file is found too, and one whose settings were altered by other means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from odradek.foundation.settings.areas.protection import STORES_OF_LISTENERS
from odradek.foundation.settings.broker_settings import USED
from odradek.foundation.settings.declaration import Scope, Setting
from odradek_operator.gateways.cluster_admin import InForce
from odradek_operator.resources.brokers import AUTHORIZER_KEYS, BROKER_SETTINGS

_COMPARED: Final = {setting.key: setting for setting in BROKER_SETTINGS} | {
    key: USED[key]
    for key in (
        "listeners",
        "listener.security.protocol.map",
        "advertised.listeners",
        "log.dirs",
        *AUTHORIZER_KEYS,
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsPlan:
    """The changes to brokers' settings and the restarts that they need.

    `alter` are common settings to set now, or with None to take back. `restart` says for each broker why it must be
    restarted. `live` are the keys that were ever altered. `covered` are the keys for which a broker has a value of its
    own, and not the wanted one.
    """

    alter: Mapping[str, str | None] = field(default_factory=dict)
    restart: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    live: tuple[str, ...] = ()
    covered: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


def plan_settings(
    wanted: Mapping[int, Mapping[str, str]],
    in_force: Mapping[int, Mapping[str, InForce]],
    *,
    live: tuple[str, ...],
) -> SettingsPlan:
    """Compare each broker's file with what it has in force. Brokers that did not answer are left out."""
    alter: dict[str, str | None] = {}
    restart: dict[int, list[str]] = {}
    covered: dict[int, list[str]] = {}
    for broker, entries in in_force.items():
        file = wanted[broker]
        for key, setting in _COMPARED.items():
            found = entries.get(key)
            if found is None or not (key in file or found.given or key in live):
                continue
            target = file.get(key, setting.default_text)
            if _same(setting, found.value, target):
                continue
            if setting.scope is Scope.CLUSTER_WIDE and (target is not None or found.common_override):
                # What was set for one broker alone covers the common value; setting that again and again has no effect.
                if found.own_override:
                    covered.setdefault(broker, []).append(key)
                else:
                    alter[key] = target
            # Stores change while a broker runs in the form for one listener only, and a Cluster's are for all.
            elif setting.scope is not Scope.PER_BROKER or key in STORES_OF_LISTENERS:
                restart.setdefault(broker, []).append(f"{key} is {found.value}, wanted {target}")
    return SettingsPlan(
        alter=alter,
        restart={broker: tuple(reasons) for broker, reasons in restart.items()},
        live=tuple(sorted({*live, *alter})),
        covered={broker: tuple(keys) for broker, keys in covered.items()},
    )


def _same(setting: Setting, one: str | None, other: str | None) -> bool:
    if one == other:
        return True
    if one is None or other is None:
        return (one or "") == (other or "")
    try:
        return bool(setting.parse(one) == setting.parse(other))
    except ValueError:
        return False
