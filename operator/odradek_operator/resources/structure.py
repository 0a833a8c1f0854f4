"""Structures of fields: a frozen dataclass is a resource's part, and its annotations are its declaration.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Storage:
        size: Annotated[str, Quantity(), Doc("How much each broker's volume holds.")] = "10Gi"

Three functions work from that. `parse` makes a value of JSON and names every mistake with its path. `render` makes JSON
of a value. `openapi` makes the schema, with descriptions, defaults and CEL rules.

A field without a default is required; a default of None leaves the field out.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from odradek_operator.resources.schema import Schema

T = TypeVar("T")
_ABSENT: Final = object()
# Reading annotations is slow, and there are few structures.
_FIELDS: Final[dict[type[object], tuple[StructureField, ...]]] = {}


class InvalidResource(ValueError):
    """A resource that cannot be used; `problems` has one sentence for each mistake, with its path."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


class Doc(str):
    """The meaning of a field, for its description and the reference page."""

    __slots__ = ()


class Rule(NamedTuple):
    """A CEL rule of a structure (its class variable RULES), and what a user reads when it is broken."""

    expression: str
    message: str


class StructureField(NamedTuple):
    """One declared field. `default` is as `render` would give it."""

    attribute: str
    name: str
    schema: Schema
    doc: str
    required: bool
    default: object


class Nested(Schema):
    """Another structure. `defaults` go before those that its fields declare, by attribute, where it is used here.

    A field's own default counts only where the whole part is left out: a part that is given in part takes these.
    """

    def __init__(self, structure: type[object], **defaults: object) -> None:
        self.structure = structure
        self.shown = "object"
        self._defaults = defaults

    def fields(self) -> tuple[StructureField, ...]:
        """The structure's fields, with the defaults that they have here."""
        return tuple(
            field._replace(default=field.schema.render(self._defaults[field.attribute]), required=False)
            if field.attribute in self._defaults
            else field
            for field in fields_of(self.structure)
        )

    def parse(self, value: object, path: str, problems: list[str]) -> Any:
        if not isinstance(value, Mapping):
            problems.append(f"{path}: must be an object")
            return None
        before = len(problems)
        values: dict[str, object] = dict(self._defaults)
        for field in self.fields():
            given = value.get(field.name, _ABSENT)
            at = f"{path}.{field.name}" if path else field.name
            # A null is what is left when a field is taken away by a merge.
            if given is _ABSENT or given is None:
                if field.required:
                    problems.append(f"{at}: is missing")
                continue
            values[field.attribute] = field.schema.parse(given, at, problems)
        return self.structure(**values) if len(problems) == before else None

    def openapi(self) -> dict[str, object]:
        properties: dict[str, object] = {}
        for field in self.fields():
            schema = field.schema.openapi()
            schema["description"] = field.doc
            if field.default is not None:
                schema["default"] = field.default
            properties[field.name] = dict(sorted(schema.items()))
        schema = {"type": "object", "properties": properties}
        if required := [field.name for field in self.fields() if field.required]:
            schema["required"] = required
        if rules := getattr(self.structure, "RULES", ()):
            schema["x-kubernetes-validations"] = [
                {"rule": rule.expression, "message": rule.message} for rule in rules
            ]
        return schema

    def render(self, value: object) -> object:
        rendered: dict[str, object] = {}
        for field in fields_of(self.structure):
            inner = getattr(value, field.attribute)
            if inner is not None:
                rendered[field.name] = field.schema.render(inner)
        return rendered


class Listing(Schema):
    """A list. With `keys`, those fields identify its items, so that several owners may apply their own."""

    def __init__(
        self, item: Schema, *, max_items: int, min_items: int = 0, keys: tuple[str, ...] = ()
    ) -> None:
        self.item = item
        self._max_items = max_items
        self._min_items = min_items
        self._keys = keys
        self.shown = f"list of {item.shown}"

    def parse(self, value: object, path: str, problems: list[str]) -> tuple[Any, ...]:
        if not isinstance(value, Sequence) or isinstance(value, str):
            problems.append(f"{path}: must be a list")
            return ()
        if not self._min_items <= len(value) <= self._max_items:
            problems.append(
                f"{path}: has {len(value)} items; allowed are {self._min_items} to {self._max_items}"
            )
        return tuple(self.item.parse(item, f"{path}[{at}]", problems) for at, item in enumerate(value))

    def openapi(self) -> dict[str, object]:
        schema: dict[str, object] = {
            "type": "array",
            "items": self.item.openapi(),
            "maxItems": self._max_items,
        }
        if self._min_items:
            schema["minItems"] = self._min_items
        if self._keys:
            schema["x-kubernetes-list-type"] = "map"
            schema["x-kubernetes-list-map-keys"] = list(self._keys)
        return schema

    def render(self, value: Any) -> object:
        return [self.item.render(item) for item in value]


class Table(Schema):
    """Values by text, as labels."""

    def __init__(self, value: Schema, *, max_entries: int = 256) -> None:
        self._value = value
        self._max_entries = max_entries
        self.shown = f"{value.shown} by name"

    def parse(self, value: object, path: str, problems: list[str]) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            problems.append(f"{path}: must be an object")
            return {}
        if len(value) > self._max_entries:
            problems.append(f"{path}: has {len(value)} entries; allowed are {self._max_entries}")
        return {key: self._value.parse(inner, f"{path}[{key}]", problems) for key, inner in value.items()}

    def openapi(self) -> dict[str, object]:
        return {
            "type": "object",
            "additionalProperties": self._value.openapi(),
            "maxProperties": self._max_entries,
        }

    def render(self, value: Any) -> object:
        return {key: self._value.render(inner) for key, inner in value.items()}


def fields_of(structure: type[object]) -> tuple[StructureField, ...]:
    """The declared fields of a dataclass, in order. Raises TypeError for one that has no schema or no text."""
    found = _FIELDS.get(structure)
    if found is None:
        found = _FIELDS[structure] = _read_fields(structure)
    return found


def _read_fields(structure: type[Any]) -> tuple[StructureField, ...]:
    hints = get_type_hints(structure, include_extras=True)
    fields: list[StructureField] = []
    for field in dataclasses.fields(structure):
        hint = hints[field.name]
        extras = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        schema = next((extra for extra in extras if isinstance(extra, Schema)), None)
        doc = next((extra for extra in extras if isinstance(extra, Doc)), None)
        if schema is None or doc is None:
            raise TypeError(f"{structure.__name__}.{field.name} needs Annotated[…, a Schema, Doc(…)]")
        default: object = None
        required = False
        if field.default is not dataclasses.MISSING:
            default = None if field.default is None else schema.render(field.default)
        elif field.default_factory is not dataclasses.MISSING:
            default = schema.render(field.default_factory())
        else:
            required = True
        fields.append(
            StructureField(field.name, _camel_case(field.name), schema, str(doc), required, default)
        )
    return tuple(fields)


def parse(structure: type[T], value: object, *, path: str = "spec") -> T:
    """The checked value of a part of a resource. Raises InvalidResource that names every mistake."""
    problems: list[str] = []
    parsed = Nested(structure).parse(value, path, problems)
    if problems:
        raise InvalidResource(problems)
    assert isinstance(parsed, structure)
    return parsed


def render(value: object) -> dict[str, object]:
    """A structure as JSON; fields that are None are left out."""
    rendered = Nested(type(value)).render(value)
    assert isinstance(rendered, dict)
    return rendered


def _camel_case(attribute: str) -> str:
    """`deletion_policy` is `deletionPolicy`; a last underscore, as in `for_`, is for Python alone."""
    return re.sub(r"_([a-z0-9])", lambda match: match[1].upper(), attribute.rstrip("_"))
