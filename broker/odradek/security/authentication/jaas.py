"""`sasl.jaas.config`: one login module and its options, as Java's configuration of logins writes them.

    CLASS required|requisite|sufficient|optional (key=value | key="value")* ";"

The class is never loaded: only the known names of Kafka's own modules are accepted, each for its mechanism.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from odradek.foundation.errors import SettingError

KEY: Final = "sasl.jaas.config"
_MODULES: Final = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": ("PLAIN",),
    "org.apache.kafka.common.security.scram.ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule": ("OAUTHBEARER",),
}
# Kafka's module makes such tokens for development.
_UNSIGNED: Final = "unsecuredLogin"
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_WORD: Final = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^\s"=;]+)|([=;]))', re.DOTALL)


class JaasEntry(NamedTuple):
    """One login module with its options. The options hold secrets: they are never shown."""

    module: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"JaasEntry({self.module})"


def parse_jaas(text: str, *, key: str, mechanism: str) -> JaasEntry:
    """The entry in `text`, which is the value of `key`. Raises SettingError, which shows no part of an option."""
    words = _words(text, key)
    if not words or words[-1] != ";" or words.count(";") != 1:
        raise SettingError(f"{key} must hold one login module and end with a semicolon")
    module, *rest = words[:-1]
    if module is None or mechanism not in _MODULES.get(module, ()):
        wanted = next(name for name, mechanisms in _MODULES.items() if mechanism in mechanisms)
        raise SettingError(
            f"{key} names the login module {module}; for {mechanism} it must be {wanted}, since no classes are loaded"
        )
    if not rest or rest[0] not in _FLAGS:
        raise SettingError(f"{key}: behind {module} must stand required")
    options = _options(rest[1:], key)
    if any(name.startswith(_UNSIGNED) for name in options):
        raise SettingError(
            f"{key} asks for tokens without a signature ({_UNSIGNED}…), which are never made or taken"
        )
    return JaasEntry(module, options)


def _words(text: str, key: str) -> list[str]:
    words: list[str] = []
    position = 0
    end = len(text.rstrip())
    while position < end:
        match = _WORD.match(text, position)
        if match is None:
            raise SettingError(f"{key} cannot be read: after {len(words)} words a quotation mark is missing")
        position = match.end()
        quoted, bare, sign = match.groups()
        # A sign in quotes is a value, so the two must differ.
        words.append(
            sign or bare if quoted is None else "\0" + re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)
        )
    return words


def _options(words: list[str], key: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for position in range(0, len(words), 3):
        triple = words[position : position + 3]
        if len(triple) < 3 or triple[1] != "=" or triple[0] in ("=", ";") or triple[2] in ("=", ";"):
            raise SettingError(f'{key}: option {position // 3 + 1} must look like name="value"')
        options[triple[0].removeprefix("\0")] = triple[2].removeprefix("\0")
    return options
