"""The fields of a viewer's request, read one by one: a wrong type, a missing field and an unknown one are refused."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from odradek.foundation.errors import InvalidRequest

# The largest offset and time; a larger number would not fit into a request.
NUMBER_MAX: Final = 2**63 - 1
_NUMBER: Final = re.compile(r"-?[0-9]{1,19}")


class GivenFields:
    """The fields of a JSON object, or of a query. Each method raises InvalidRequest for what it cannot read."""

    def __init__(self, given: object) -> None:
        if not isinstance(given, Mapping):
            raise InvalidRequest("the request has to be a JSON object")
        self._given: dict[str, object] = {str(name): value for name, value in given.items()}
        self._read: set[str] = set()

    def refuse_others(self) -> None:
        """Raise InvalidRequest for a field that was not read: mostly it is misspelt."""
        unknown = sorted(self._given.keys() - self._read)
        if unknown:
            raise InvalidRequest(f"there is no field {unknown[0]!r}")

    def text(self, name: str) -> str:
        """A text that is not empty."""
        found = self.text_or_none(name)
        if not found:
            raise InvalidRequest(f"{name} is missing")
        return found

    def text_or_none(self, name: str) -> str | None:
        """A text, or None where there is none."""
        found = self._take(name)
        if found is not None and not isinstance(found, str):
            raise InvalidRequest(f"{name} has to be text")
        return _encodable(found, name) if found is not None else None

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """One of the choices; the first where there is none."""
        found = self.text_or_none(name) or choices[0]
        if found not in choices:
            raise InvalidRequest(f"{name} is {found!r}; it can be {', '.join(choices)}")
        return found

    def number(self, name: str, default: int, *, least: int = 0, most: int = NUMBER_MAX) -> int:
        """A whole number; one that is too large becomes the largest."""
        found = self.number_or_none(name)
        if found is None:
            return default
        if found < least:
            raise InvalidRequest(f"{name} is {found}; the least is {least}")
        return min(found, most)

    def number_or_none(self, name: str) -> int | None:
        """A whole number, or None where there is none. A text of digits is one, as in a query."""
        found = self._take(name)
        if found is None or found == "":
            return None
        if isinstance(found, str) and _NUMBER.fullmatch(found):
            found = int(found)
        if not isinstance(found, int) or isinstance(found, bool) or abs(found) > NUMBER_MAX:
            raise InvalidRequest(f"{name} has to be a whole number")
        return found

    def numbers(self, name: str) -> list[int]:
        """Numbers with commas between them, none of them below 0."""
        text = self.text_or_none(name) or ""
        parts = [part.strip() for part in text.split(",") if part.strip()]
        if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
            raise InvalidRequest(f"{name} has to be numbers, as in 0,2,5")
        return [int(part) for part in parts]

    def flag(self, name: str) -> bool:
        """True, false, or false where there is none; in a query 1 is true."""
        found = self._take(name)
        if found in (None, False, "", "0"):
            return False
        if found in (True, "1"):
            return True
        raise InvalidRequest(f"{name} has to be true or false")

    def texts(self, name: str) -> list[str]:
        """A list of texts."""
        found = self._take(name)
        if found is None:
            return []
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            raise InvalidRequest(f"{name} has to be a list of texts")
        return [_encodable(one, name) for one in found]

    def texts_by_name(self, name: str) -> dict[str, str]:
        """An object whose values are texts."""
        found = self._take(name)
        if found is None:
            return {}
        if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
            raise InvalidRequest(f"{name} has to be an object of texts")
        return {_encodable(str(key), name): _encodable(value, name) for key, value in found.items()}

    def pairs(self, name: str) -> list[tuple[str, str]]:
        """A list of pairs of texts."""
        found = self._take(name)
        if found is None:
            return []
        pairs: list[tuple[str, str]] = []
        for one in found if isinstance(found, list) else [None]:
            if not isinstance(one, list) or len(one) != 2 or not all(isinstance(part, str) for part in one):
                raise InvalidRequest(f"{name} has to be a list of pairs of texts")
            pairs.append((_encodable(one[0], name), _encodable(one[1], name)))
        return pairs

    def _take(self, name: str) -> object:
        self._read.add(name)
        return self._given.get(name)


def _encodable(text: str, name: str) -> str:
    """The text. JSON can express half a character, which no record can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidRequest(f"{name} has a character that is none") from None
    return text
