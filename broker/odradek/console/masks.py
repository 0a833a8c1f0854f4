"""Fields of records that no viewer may see: rules by topic, and texts without what they hide.

A file of TOML has the rules. Each says where it counts, and what it hides there:

    [[mask]]
    topics = ["payments-*"]              # names, with * and ?
    clusters = ["production"]            # without it, each cluster of the console
    value = ["$.card.number", "iban"]    # a path from the top, or a field of this name anywhere
    key = ["$"]                          # "$" is the whole of it
    headers = ["authorization"]          # "*" is each of them

Names are compared without regard to capitals, `_` and `-`: a producer's library may have changed them. A path passes
through arrays, and `*` is any one step. JSON keeps its digits, its order and its blanks: only what is hidden is
replaced. A key or a value that is neither an object nor an array cannot be judged by its fields, and is hidden whole.
Text that holds JSON in a string is not looked into.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from typing import Final
from unicodedata import normalize

from odradek.console.decoders import TOKEN
from odradek.foundation.console_limits import (
    CONSOLE_MASK_RULES_MAX,
    CONSOLE_MASK_TOPICS_KEPT_MAX,
    CONSOLE_MASKED_BYTES_MAX,
)
from odradek.foundation.errors import SettingError
from odradek.wire.records.record import Headers

MASK: Final = "[masked]"
_HIDDEN: Final = MASK.encode()
_HIDDEN_JSON: Final = json.dumps(MASK)
_WHOLE: Final = "$"
_ANY: Final = "*"
_PARTS: Final = ("topics", "clusters", "key", "value", "headers")
_OPENED: Final = ("{", "[")
_CLOSED: Final = ("}", "]")


@dataclass(frozen=True, slots=True)
class FieldMasks:
    """What is hidden of a JSON document."""

    is_whole: bool = False
    names: frozenset[str] = frozenset()
    paths: tuple[tuple[str, ...], ...] = ()

    def __bool__(self) -> bool:
        return self.is_whole or bool(self.names) or bool(self.paths)

    def hide(self, data: bytes) -> bytes:
        """The document without what is hidden; what cannot be judged is hidden whole."""
        if self.is_whole or len(data) > CONSOLE_MASKED_BYTES_MAX:
            return _HIDDEN
        try:
            text = data.decode()
            if not isinstance(json.loads(text), dict | list):
                return _HIDDEN
        except (ValueError, RecursionError):
            return _HIDDEN
        return self._hide_in(text).encode()

    def _hides(self, path: Sequence[str]) -> bool:
        if not path:
            return False
        return path[-1] in self.names or any(_fits(wanted, path) for wanted in self.paths)

    def _hide_in(self, text: str) -> str:
        """The text of a valid document, with a mask for each value that is hidden."""
        parts: list[str] = []
        opened: list[str] = []  # the objects and arrays around a token
        path: list[str] = []  # the names of fields around it, of each object one
        taken = 0  # up to where the text is taken over
        hidden_depth = 0  # objects and arrays that are open in a hidden value
        is_name = False
        for match in TOKEN.finditer(text):
            token = match[0]
            if hidden_depth:
                hidden_depth += (token in _OPENED) - (token in _CLOSED)
                if not hidden_depth:
                    parts.append(_HIDDEN_JSON)
                    taken = match.end()
            elif token in _CLOSED:
                if opened.pop() == "{":
                    path.pop()
                is_name = False
            elif token == ",":
                is_name = opened[-1] == "{"
            elif token == ":":
                is_name = False
            elif is_name:
                path[-1] = fold(json.loads(token))
            elif self._hides(path):
                parts.append(text[taken : match.start()])
                if token in _OPENED:
                    hidden_depth = 1
                else:
                    parts.append(_HIDDEN_JSON)
                    taken = match.end()
            elif token in _OPENED:
                opened.append(token)
                is_name = token == "{"
                if is_name:
                    path.append("")
        parts.append(text[taken:])
        return "".join(parts)


@dataclass(frozen=True, slots=True)
class TopicMasks:
    """What is hidden of a topic's records."""

    key: FieldMasks = FieldMasks()
    value: FieldMasks = FieldMasks()
    headers: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.key) or bool(self.value) or bool(self.headers)

    def hide_headers(self, headers: Headers) -> Headers:
        """The headers, with a mask for each value that is hidden. Names stay."""
        if not self.headers:
            return headers
        return tuple((name, _HIDDEN if self._hides(name) else value) for name, value in headers)

    def _hides(self, name: str) -> bool:
        return _ANY in self.headers or fold(name) in self.headers


@dataclass(frozen=True, slots=True)
class _Rule:
    number: int
    topics: re.Pattern[str]
    clusters: re.Pattern[str]
    masks: TopicMasks
    dotted: tuple[str, ...] = ()
    """Names of fields that look like paths."""


class MaskRules:
    """The rules of one cluster. What they say of a topic is found once."""

    def __init__(self, rules: Iterable[_Rule] = ()) -> None:
        self._rules = tuple(rules)
        self._known: dict[str, TopicMasks] = {}

    def for_cluster(self, name: str) -> MaskRules:
        """Those rules that count in a cluster."""
        return MaskRules(one for one in self._rules if one.clusters.match(name))

    def list_unused(self, names: Iterable[str]) -> list[int]:
        """The numbers of the rules that count in none of these clusters."""
        clusters = list(names)
        return [one.number for one in self._rules if not any(map(one.clusters.match, clusters))]

    def list_dotted(self) -> list[tuple[int, str]]:
        """The names of fields with a dot, each with its rule's number. A path may have been meant."""
        return [(one.number, name) for one in self._rules for name in one.dotted]

    def find(self, topic: str) -> TopicMasks:
        """What all rules together hide of a topic."""
        found = self._known.get(topic)
        if found is None:
            while len(self._known) >= CONSOLE_MASK_TOPICS_KEPT_MAX:
                del self._known[next(iter(self._known))]
            masks = [one.masks for one in self._rules if one.topics.match(topic)]
            found = self._known[topic] = TopicMasks(
                _join(one.key for one in masks),
                _join(one.value for one in masks),
                frozenset[str]().union(*(one.headers for one in masks)),
            )
        return found


def parse_masks(text: str, *, source: str) -> MaskRules:
    """The rules of a file. Raises SettingError: a rule that is misspelt would hide nothing."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as failure:
        raise SettingError(f"{source}: it is no TOML: {failure}") from failure
    given = document.pop("mask", [])
    if document or not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        odd = [*document, *(["mask"] if not isinstance(given, list) else [])]
        found = f"; it has {', '.join(odd)}" if odd else ""
        raise SettingError(
            f"{source}: a rule begins with the line [[mask]], and nothing else may be there{found}"
        )
    if not 0 < len(given) <= CONSOLE_MASK_RULES_MAX:
        raise SettingError(f"{source}: it has {len(given)} rules; 1 to {CONSOLE_MASK_RULES_MAX} are allowed")
    return MaskRules(
        _read_rule(one, number, f"{source}: rule {number}") for number, one in enumerate(given, 1)
    )


def fold(name: str) -> str:
    """A name as it is compared. Letters that look alike by composition are alike."""
    return normalize("NFKC", name).casefold().replace("_", "").replace("-", "")


def _read_rule(given: Mapping[str, object], number: int, where: str) -> _Rule:
    texts: dict[str, list[str]] = {}
    for name, found in given.items():
        if name not in _PARTS:
            raise SettingError(f"{where} has {name!r}; it can have {', '.join(_PARTS)}")
        if not isinstance(found, list) or not found or not all(isinstance(one, str) and one for one in found):
            raise SettingError(f"{where}: {name} has to be a list of texts, none of them empty")
        texts[name] = found
    if "topics" not in texts or not texts.keys() & {"key", "value", "headers"}:
        raise SettingError(f"{where} needs topics, and one of key, value and headers")
    return _Rule(
        number,
        _compile(texts["topics"]),
        _compile(texts.get("clusters", [_ANY])),
        TopicMasks(
            _read_fields(texts.get("key", ()), f"{where}: key"),
            _read_fields(texts.get("value", ()), f"{where}: value"),
            frozenset(one if one == _ANY else fold(one) for one in texts.get("headers", ())),
        ),
        tuple(
            one
            for part in ("key", "value")
            for one in texts.get(part, ())
            if "." in one and not one.startswith(_WHOLE)
        ),
    )


def _read_fields(texts: Sequence[str], where: str) -> FieldMasks:
    names, paths = [], []
    for text in texts:
        if text == _WHOLE:
            continue
        if not text.startswith(_WHOLE):
            names.append(fold(text))
            continue
        first, *steps = text.split(".")
        if first != _WHOLE or not all(steps) or any("[" in one for one in steps):
            raise SettingError(
                f"{where} has {text!r}; write a path as $.card.number, which passes through arrays, or a field's name"
            )
        paths.append(tuple(one if one == _ANY else fold(one) for one in steps))
    return FieldMasks(_WHOLE in texts, frozenset(names), tuple(paths))


def _compile(patterns: Iterable[str]) -> re.Pattern[str]:
    """Matches what one of the patterns does. In them only * and ? have a meaning."""
    return re.compile("|".join(translate(one.replace("[", "[[]")) for one in patterns))


def _join(masks: Iterable[FieldMasks]) -> FieldMasks:
    all_of_them = tuple(masks)
    return FieldMasks(
        any(one.is_whole for one in all_of_them),
        frozenset[str]().union(*(one.names for one in all_of_them)),
        tuple(path for one in all_of_them for path in one.paths),
    )


def _fits(wanted: Sequence[str], path: Sequence[str]) -> bool:
    return len(wanted) == len(path) and all(
        step in (_ANY, name) for step, name in zip(wanted, path, strict=True)
    )
