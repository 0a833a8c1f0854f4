"""`ssl.principal.mapping.rules`: the user's name from the subject of a certificate (KIP-371).

    rules   rule ("," rule)*
    rule    "DEFAULT" | "RULE:" pattern "/" replacement "/" ["L" | "U"]

The first rule whose pattern matches the whole subject gives the name; DEFAULT gives the subject itself. Where no rule
matches, the connection is refused. Commas may stand in a pattern, and `\\/` is a slash.

Patterns are regular expressions in RE2's syntax, which takes linear time for any subject. What Java has beyond it (a
look-ahead, a back-reference, a possessive quantifier) is refused at the start. Kafka replaces each match in the
subject, as `.*` matches twice; here the whole subject is replaced once.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any, Final, NamedTuple

from odradek.foundation.errors import SettingError

KEY: Final = "ssl.principal.mapping.rules"
_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))"
    r"\s*(?:,|$)"
)
_GROUP: Final = re.compile(r"\$(\d)|\\(.)")


class MappingRefused(ValueError):
    """No rule fits a subject, or its name would be empty."""


class _Rule(NamedTuple):
    pattern: Any
    replacement: str
    case: str


class PrincipalMapping:
    """The rules of one listener."""

    def __init__(self, text: str) -> None:
        """Raises SettingError for rules that cannot be read."""
        self._rules: list[_Rule | None] = []  # None is DEFAULT
        position = 0
        while position < len(text.rstrip()):
            match = _RULE.match(text, position)
            if match is None:
                raise SettingError(
                    f"Invalid value {text} for configuration {KEY}: from {text[position:]!r} on it must be DEFAULT or "
                    "RULE:pattern/replacement/ with L or U behind it, parted by commas"
                )
            position = match.end()
            self._rules.append(None if match["default"] else _compiled(text, match))
        if not self._rules:
            self._rules.append(None)

    def name_of(self, subject: str) -> str:
        """The user's name. Raises MappingRefused."""
        for rule in self._rules:
            if rule is None:
                return subject
            match = rule.pattern.fullmatch(subject)
            if match is None:
                continue
            name = _GROUP.sub(partial(_replaced, match), rule.replacement)
            name = name.lower() if rule.case == "L" else name.upper() if rule.case == "U" else name
            if not name.strip():
                raise MappingRefused(f"{KEY} makes an empty name of the certificate's subject {subject!r}")
            return name
        raise MappingRefused(f"no rule of {KEY} fits the certificate's subject {subject!r}")


def _compiled(text: str, match: re.Match[str]) -> _Rule:
    import re2

    pattern = match["pattern"].replace("\\/", "/")
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as failure:
        raise SettingError(
            f"Invalid value {text} for configuration {KEY}: {match['pattern']} must be a regular expression that RE2 "
            f"can read: {failure}"
        ) from failure
    return _Rule(compiled, match["replacement"], match["case"])


def _replaced(match: Any, found: re.Match[str]) -> str:
    if found[2] is not None:
        return found[2]
    number = int(found[1])
    if number > match.re.groups:
        return found[0]
    return match.group(number) or ""
