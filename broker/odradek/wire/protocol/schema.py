"""Message schemas: kio's generated classes, loaded when first asked for, and what their fields look like on
the wire.

kio has one frozen dataclass per message, version and nested structure; each field's metadata holds its wire type. Only
the classes are used. kio's own reader reserves memory for any array length that a message announces. The process is
aborted when that fails, so five hostile bytes would end the broker. kio's writer costs tens of microseconds for a
message that ours writes in a few. `reading` and `writing` take their place.

The classes are data to us, so any version of kio with Kafka 4.1's messages in this form will do. Which ones
have them is checked when this module is imported: an old one would refuse single requests later on.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
from functools import cache
from types import ModuleType, NoneType, UnionType
from typing import Any, Final, Protocol, cast, get_args, get_origin

import kio

from odradek.foundation.errors import DependencyError, UnsupportedVersion
from odradek.foundation.named_tuple import NamedTuple
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.newer_versions import NEWER_VERSIONS, derive_message, newest_version_of

REQUEST: Final = "request"
RESPONSE: Final = "response"
DATA: Final = "data"

# The wire type of a structure; all other types are named as in kio's metadata ("int32", "string",
# "error_code", ...).
STRUCTURE: Final = "structure"


# pyproject.toml asks for the same range. 0.6.3 is the first version with the messages of Kafka 4.1. Another minor
# version may write its classes in another form, or leave out message versions that clients still send.
KIO_VERSION_MIN: Final = (0, 6, 3)
KIO_VERSION_LIMIT: Final = (0, 7)


def check_kio(version: tuple[int | str, ...]) -> None:
    """Whether this version of kio has what is needed, as kio's own `__version_tuple__`. Raises DependencyError."""
    numbers = tuple(part for part in version[:3] if isinstance(part, int))
    if not KIO_VERSION_MIN <= numbers < KIO_VERSION_LIMIT:
        found, lowest, limit = (
            ".".join(map(str, one)) for one in (numbers, KIO_VERSION_MIN, KIO_VERSION_LIMIT)
        )
        raise DependencyError(
            f"kio {found} is installed, which has not the messages of Kafka 4.1 as this package reads them: "
            f"pip install 'kio>={lowest},<{limit}'"
        )


check_kio(kio.__version_tuple__)


class Structure(Protocol):
    """One of kio's classes, or the declaration of a structure of our own. Its call makes a value."""

    @property
    def __flexible__(self) -> bool: ...

    def __hash__(self) -> int: ...

    def __call__(self, **values: object) -> object: ...


class FieldSchema(NamedTuple):
    """One field of a message or nested structure."""

    name: str
    wire_type: str
    is_array: bool
    is_nullable: bool  # the array if it is one, else the value
    structure: Any  # the class of the nested structure, or None
    tag: int | None  # the number of a tagged field, None for a field that is always sent
    default: object  # MISSING when the schema gives none


class Declared(Protocol):
    """A structure of our own, as `declared` makes it."""

    @property
    def fields(self) -> tuple[FieldSchema, ...]: ...


@cache
def fields_of(structure: object) -> tuple[FieldSchema, ...]:
    """The fields of a kio class, or of a structure that declares them, in the order of the wire."""
    if not dataclasses.is_dataclass(structure):
        return cast(Declared, structure).fields
    return tuple(_field_schema(field) for field in dataclasses.fields(structure))


def _field_schema(field: dataclasses.Field[object]) -> FieldSchema:
    declared, is_nullable = _without_none(field.type)
    is_array = get_origin(declared) is tuple
    if is_array:
        declared, _ = _without_none(get_args(declared)[0])
    is_structure = dataclasses.is_dataclass(declared)
    return FieldSchema(
        name=field.name,
        wire_type=STRUCTURE if is_structure else field.metadata["kafka_type"],
        is_array=is_array,
        is_nullable=is_nullable,
        structure=declared if is_structure else None,
        tag=field.metadata.get("tag"),
        default=field.default,
    )


def _without_none(declared: object) -> tuple[object, bool]:
    if get_origin(declared) is not UnionType:
        return declared, False
    (inner,) = (argument for argument in get_args(declared) if argument is not NoneType)
    return inner, True


@cache
def message_class(api_key: int, api_version: int, kind: str) -> Structure:
    """kio's class of a request or response (`kind`), or the one that is declared where kio lacks the version.

    Raises UnsupportedVersion when there is no such API or version.
    """
    if (api_key, api_version) in NEWER_VERSIONS:
        before = message_class(api_key, api_version - 1, kind)
        return cast(Structure, derive_message(cast(type, before), api_key, api_version))
    try:
        name = ApiKey(api_key).name
        return _load(name.lower(), api_version, kind)
    except ValueError:
        raise UnsupportedVersion(f"there is no API with the number {api_key}") from None
    except ModuleNotFoundError:
        raise UnsupportedVersion(f"there is no version {api_version} of {name}") from None


@cache
def data_class(name: str, version: int) -> Structure:
    """kio's class of a structure that is not a request or response, such as `consumer_protocol_assignment`.

    Raises UnsupportedVersion when there is no such version.
    """
    try:
        return _load(name, version, DATA)
    except ModuleNotFoundError:
        raise UnsupportedVersion(f"there is no version {version} of {name}") from None


def _load(name: str, version: int, kind: str) -> Structure:
    load_primitives()
    module = importlib.import_module(f"kio.schema.{name}.v{version}.{kind}")
    for value in vars(module).values():
        if isinstance(value, type) and dataclasses.is_dataclass(value) and _kind(value) == kind:
            return cast(Structure, value)
    raise AssertionError(f"{module.__name__} has no {kind}")


def _kind(structure: type) -> object:
    return structure.__dict__["__type__"].name


@cache
def load_primitives() -> ModuleType:
    """kio's primitive types, loaded without hypothesis.

    kio imports hypothesis wherever it is installed, to register strategies for its types: half of a
    broker's start.
    """
    hidden = "hypothesis" not in sys.modules
    if hidden:
        sys.modules["hypothesis"] = None  # type: ignore[assignment]
    try:
        return importlib.import_module("kio.static.primitive")
    finally:
        if hidden:
            del sys.modules["hypothesis"]


def versions_of(api_key: int) -> range:
    """The versions that have a schema. Reads a directory: not for the hot path."""
    package = importlib.import_module(f"kio.schema.{ApiKey(api_key).name.lower()}")
    of_kio = _versions(package)
    return range(of_kio.start, max(of_kio.stop, newest_version_of(api_key) + 1))


def versions_of_data(name: str) -> range:
    """The versions of a structure that is not a request or response."""
    return _versions(importlib.import_module(f"kio.schema.{name}"))


def _versions(package: ModuleType) -> range:
    from pkgutil import iter_modules

    numbers = [int(module.name[1:]) for module in iter_modules(package.__path__) if module.name[:1] == "v"]
    return range(min(numbers), max(numbers) + 1)
