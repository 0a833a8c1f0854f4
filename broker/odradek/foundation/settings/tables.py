"""Settings by key, for readers of texts other than the broker's: files of properties, keyword arguments, options."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from odradek.foundation.errors import SettingError
from odradek.foundation.settings.declaration import Setting
from odradek.foundation.words import nearest_name


class SettingTable(Mapping[str, Setting]):
    """The settings of one reader by key. Earlier spellings of a key stand behind it, with blanks between them."""

    def __init__(self, *parts: Mapping[str, Setting]) -> None:
        self._settings: dict[str, Setting] = {}
        self._keys: dict[str, str] = {}
        for part in parts:
            for names, setting in part.items():
                key, *_ = names.split()
                setting.name(key)
                self._settings[key] = setting
                self._keys |= dict.fromkeys(names.split(), key)

    def __getitem__(self, key: str) -> Setting:
        return self._settings[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._settings)

    def __len__(self) -> int:
        return len(self._settings)

    def key_of(self, name: str) -> str | None:
        """The key that a spelling stands for; None for an unknown one."""
        return self._keys.get(name)

    def suggest(self, name: str, *others: str) -> str:
        """The known name nearest to an unknown one, as the end of a sentence; empty when none is near."""
        return suggest(name, (*self._keys, *others))

    def collect(self, given: Mapping[str, str]) -> dict[str, str]:
        """The texts by key. Raises SettingError for an unknown name, and for two spellings that disagree."""
        texts: dict[str, str] = {}
        first: dict[str, str] = {}
        for name, text in given.items():
            key = self.key_of(name)
            if key is None:
                raise SettingError(f"there is no property {name!r}{self.suggest(name)}")
            if texts.setdefault(key, text) != text:
                raise SettingError(
                    f"{first[key]} and {name} are one property, and have two values: {texts[key]!r}, {text!r}"
                )
            first.setdefault(key, name)
        return texts

    def read(self, texts: Mapping[str, str], *, where: str = "") -> dict[str, object]:
        """The values of all settings by key; of those without a text the default. Raises SettingError."""
        return {key: read_setting(setting, texts.get(key), where=where) for key, setting in self.items()}


def read_setting(setting: Setting, text: str | None, *, where: str = "") -> object:
    """The value of `text`, or the default without one. Raises SettingError, whose message `where` begins."""
    given = setting.default_text if text is None else text
    if given is None:
        return None
    try:
        return setting.read(given)
    except ValueError as wanted:
        shown = "[hidden]" if setting.is_sensitive else repr(given)
        raise SettingError(f"{where}{setting.key} is {shown}; it must be {wanted}") from None


def suggest(name: str, known: Iterable[str]) -> str:
    """The known name nearest to an unknown one, as the end of a sentence; empty when none is near."""
    nearest = nearest_name(name, known)
    return "" if nearest is None else f"; did you mean {nearest}?"
