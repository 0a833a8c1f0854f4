"""Settings as fields of a frozen dataclass.

@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSettings:
    offset_lag_max: int = setting_field("offset.lag.max", long(100, "How many offsets …", 0))
"""

from __future__ import annotations

from dataclasses import field, fields
from typing import Final

from odradek.foundation.settings.declaration import Setting, SettingValue
from odradek.foundation.settings.tables import read_setting

_META: Final = "setting"


def setting_field(key: str, setting: Setting) -> SettingValue:
    """The field of a settings class that a key gives the value of. Its default is the setting's."""
    setting.name(key)
    return field(default_factory=lambda: read_setting(setting, None), metadata={_META: setting})


def settings_of(declared: type) -> dict[str, Setting]:
    """The settings of a class by the names of its fields, in the order of declaration."""
    return {one.name: one.metadata[_META] for one in fields(declared) if _META in one.metadata}
