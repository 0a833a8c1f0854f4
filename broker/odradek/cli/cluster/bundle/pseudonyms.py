"""Stable pseudonyms in place of names, for `--redact-names`: one name has one pseudonym in all files of a bundle.

They are made with a key that is never written, so that no list of likely names finds them. Names of one or two
characters and of digits alone are kept: they stand in every text, and say nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Final

from odradek.foundation.support_limits import SUPPORT_ODD_NAMES_MAX

TOPIC: Final = "topic"
GROUP: Final = "group"
USER: Final = "user"
HOST: Final = "host"
_NAME: Final = "name"
_CHARACTERS_MIN: Final = 3
_DIGITS: Final = 8
_TOKEN: Final = re.compile(r"[A-Za-z0-9._-]{3,}")
_PLAIN: Final = re.compile(r"[A-Za-z0-9._-]+")
# A partition, a folder of one, and a folder that is deleted soon.
_NUMBERED: Final = re.compile(r"(.+)(-\d+(?:\.[0-9a-f]{32}-(?:delete|future|stray))?)")
_IPV4: Final = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\d)")
_IPV6: Final = re.compile(r"(?<![\w:.])[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}(?![\w:])")
_PRINCIPAL: Final = re.compile(r"\b(User:)([^\s,;'\")\]}]+)")
# Hosts of addresses, known or not: after the sign of a URL, and names with dots before a port.
_URL_HOST: Final = re.compile(r"(://(?:[^/\s@]{0,400}@)?)([A-Za-z0-9][A-Za-z0-9.-]{0,250})")
_HOST_AND_PORT: Final = re.compile(
    r"(?<![\w.-])()([A-Za-z][A-Za-z0-9-]{0,60}(?:\.[A-Za-z0-9-]{1,60}){1,10})(?=:\d{2,5}(?!\w))"
)
_IN_QUOTES: Final = re.compile(r"'([^'\r\n]{3,249})'|\"([^\"\r\n]{3,249})\"")
# Topics of every cluster, which name no one.
_KEPT_TOPICS: Final = ("__consumer_offsets", "__transaction_state", "__share_group_state")
_KEPT_USERS: Final = ("ANONYMOUS", "*")


class NameCover:
    """Gives names their pseudonyms. Only names that were added are found in texts, and addresses by their form."""

    def __init__(self, key: bytes) -> None:
        """`key` is secret, and of this bundle alone."""
        self._key = key
        self._known: dict[str, str] = {}
        self._odd: dict[str, str] = {}

    @property
    def names(self) -> int:
        """How many names have a pseudonym."""
        return len(self._known) + len(self._odd)

    def add(self, kind: str, names: Iterable[str]) -> None:
        """Cover these names from now on. A name keeps the kind that it had first."""
        for name in names:
            is_short = len(name) < _CHARACTERS_MIN or name.isdigit()
            if is_short or name in _KEPT_TOPICS or name in self._known or name in self._odd:
                continue
            if _PLAIN.fullmatch(name):
                self._known[name] = self._make(kind, name)
            elif len(self._odd) < SUPPORT_ODD_NAMES_MAX:
                self._odd[name] = self._make(kind, name)

    def _make(self, kind: str, name: str) -> str:
        digest = hmac.new(self._key, name.encode(), hashlib.sha256).hexdigest()
        return f"{kind}-{digest[:_DIGITS]}"

    def cover(self, text: str) -> str:
        """The text with pseudonyms for all names that were added."""
        for name in sorted(self._odd, key=len, reverse=True):
            text = text.replace(name, self._odd[name])
        return _TOKEN.sub(self._cover_token, text) if self._known else text

    def _cover_token(self, found: re.Match[str]) -> str:
        token = found[0]
        if token in self._known:
            return self._known[token]
        body = token.rstrip(".-")
        numbered = _NUMBERED.fullmatch(body)
        if body in self._known:
            return self._known[body] + token[len(body) :]
        if numbered is not None and numbered[1] in self._known:
            return self._known[numbered[1]] + numbered[2] + token[len(body) :]
        return token

    def cover_addresses(self, text: str) -> str:
        """The text with pseudonyms for the addresses of other machines, and for users as ACLs write them."""
        text = _PRINCIPAL.sub(self._cover_principal, text)
        for pattern in (_IPV4, _IPV6):
            text = pattern.sub(self._cover_address, text)
        for pattern in (_URL_HOST, _HOST_AND_PORT):
            text = pattern.sub(self._cover_host, text)
        return text

    def _cover_host(self, found: re.Match[str]) -> str:
        name = found[2]
        is_kept = name.startswith((f"{HOST}-", "127.")) or name in ("localhost", "0.0.0.0")
        return found[0] if is_kept else found[1] + self._make(HOST, name)

    def _cover_principal(self, found: re.Match[str]) -> str:
        name = found[2]
        is_covered = name in _KEPT_USERS or name.startswith(f"{USER}-")
        return found[0] if is_covered else found[1] + self._make(USER, name)

    def _cover_address(self, found: re.Match[str]) -> str:
        try:
            address = ipaddress.ip_address(found[0])
        except ValueError:
            return found[0]
        is_kept = address.is_loopback or address.is_unspecified
        return found[0] if is_kept else self._make(HOST, found[0])

    def cover_quotes(self, line: str) -> str:
        """The text with a pseudonym for whatever stands in quotes: a log may name what is gone since."""

        def replace(found: re.Match[str]) -> str:
            quote, name = found[0][0], found[1] or found[2]
            is_covered = name in self._known.values() or not any(letter.isalpha() for letter in name)
            return found[0] if is_covered else f"{quote}{self._make(_NAME, name)}{quote}"

        return _IN_QUOTES.sub(replace, line)

    def cover_document(self, value: object) -> object:
        """The document with pseudonyms in its texts, and in names of fields that are such names."""
        if isinstance(value, str):
            return self.cover_addresses(self.cover(value))
        if isinstance(value, Mapping):
            return {
                self._known.get(str(key), str(key)): self.cover_document(one) for key, one in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.cover_document(one) for one in value]
        return value
