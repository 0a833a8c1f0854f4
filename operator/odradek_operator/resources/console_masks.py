"""What no viewer of a console sees of records: the rules of `odradek console --masks`, as fields of a Cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from odradek_operator.resources.schema import Text
from odradek_operator.resources.structure import Doc, Listing, Rule

MASKS_MAX: Final = 50
_TEXTS_MAX: Final = 32
_LENGTH_MAX: Final = 256

_PATTERN: Final = r"^[^\x00-\x1f\x7f]+$"
_WHAT: Final = "a name without control characters; * and ? stand for others"
_NAMES: Final = Listing(
    Text(min_length=1, max_length=_LENGTH_MAX, pattern=_PATTERN, what=_WHAT),
    max_items=_TEXTS_MAX,
    min_items=1,
)
_HEADERS: Final = Listing(
    Text(
        min_length=1,
        max_length=_LENGTH_MAX,
        pattern=r"^(\*|[^*\x00-\x1f\x7f]+)$",
        what="the whole name of a header, or * for each of them",
    ),
    max_items=_TEXTS_MAX,
    min_items=1,
)
_FIELDS: Final = Listing(
    Text(
        min_length=1,
        max_length=_LENGTH_MAX,
        pattern=r"^([^$\x00-\x1f\x7f][^\x00-\x1f\x7f]*|\$(\.[^.\[\x00-\x1f\x7f]+)*)$",
        what="$ for the whole, a path as $.card.number, which passes through arrays, or the name of a field",
    ),
    max_items=_TEXTS_MAX,
    min_items=1,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleMask:
    """A rule: where it counts, and what it hides there."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.key) || has(self.value) || has(self.headers)",
            "this mask hides nothing: give it key, value or headers",
        ),
    )

    topics: Annotated[tuple[str, ...], _NAMES, Doc("Topics where it counts, by names with * and ?.")]
    clusters: Annotated[
        tuple[str, ...] | None,
        _NAMES,
        Doc(
            "Clusters where it counts, by their names in the console; this Cluster has its own name. Without it: all."
        ),
    ] = None
    key: Annotated[
        tuple[str, ...] | None,
        _FIELDS,
        Doc(
            "What it hides of keys: `$` all, `$.card.number` a path from the top, `iban` a field of this name anywhere."
        ),
    ] = None
    value: Annotated[tuple[str, ...] | None, _FIELDS, Doc("What it hides of values, likewise.")] = None
    headers: Annotated[
        tuple[str, ...] | None, _HEADERS, Doc("Headers that it hides, by whole names; `*` is each of them.")
    ] = None
