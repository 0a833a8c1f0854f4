"""Calls whose arguments are checked against their type hints: a wrong type is refused before anything is sent.

The hints are those that type checkers read, so that a program without a checker gets the same answer at its first
call. An error names the argument, what it has to be, and what was given. Values are never shown, as they may be
secrets. Left out: hints that name types of the checker alone, and calls for each record, which `arguments` checks.
"""

from __future__ import annotations

import collections.abc
import functools
import inspect
import types
from collections.abc import Callable, Collection, Mapping
from typing import Final, Literal, TypeVar, Union, get_args, get_origin

from odradek.foundation.ids import TopicPartition
from odradek.foundation.words import kind_of, with_article

KindT = TypeVar("KindT", bound=type)

# Arguments that have checks of their own, with words for their usual mistakes.
_CHECKED_ELSEWHERE: Final = frozenset({
    "acks", "bootstrap", "client", "compression", "headers", "key", "keys", "security", "topic", "value", "values",
})  # fmt: skip
_TEXTS: Final = (str, bytes, bytearray, memoryview)


def checking_arguments(*names: str) -> Callable[[KindT], KindT]:
    """A decorator for classes: their public coroutine methods, or those of these names, check their arguments."""

    def decorate(kind: KindT) -> KindT:
        for name, method in list(vars(kind).items()):
            is_public = inspect.iscoroutinefunction(method) and not name.startswith("_")
            if name in names or (not names and is_public):
                setattr(kind, name, _wrap_method(method))
        return kind

    return decorate


def _wrap_method(method: Callable[..., object]) -> Callable[..., object]:
    signature = inspect.signature(method)
    hints: dict[str, object] = {}

    def check(args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        if not hints:
            hints.update(_hints_of(method))
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:
            return  # the call itself raises it
        for name, value in given.items():
            if name in hints and (wrong := find_wrong_part(value, hints[name], name)) is not None:
                raise TypeError(wrong)

    if inspect.iscoroutinefunction(method):

        @functools.wraps(method)
        async def check_and_await(*args: object, **kwargs: object) -> object:
            check(args, kwargs)
            return await method(*args, **kwargs)

        return check_and_await

    @functools.wraps(method)
    def check_and_call(*args: object, **kwargs: object) -> object:
        check(args, kwargs)
        return method(*args, **kwargs)

    return check_and_call


def _hints_of(method: Callable[..., object]) -> dict[str, object]:
    """The types of the arguments by name, as far as this process has them."""
    found: dict[str, object] = {"return": object}
    names = getattr(method, "__globals__", {})
    for name, parameter in inspect.signature(method).parameters.items():
        is_many = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if name == "self" or name in _CHECKED_ELSEWHERE or is_many:
            continue
        hint = parameter.annotation
        if isinstance(hint, str):
            try:
                hint = eval(hint, names)  # the product's own text, as typing.get_type_hints does
            except (NameError, TypeError):  # a name that only type checkers import
                continue
        found[name] = hint
    return found


def find_wrong_part(value: object, hint: object, what: str) -> str | None:
    """What is wrong with a value of an argument `what`, as a sentence; None if it has the type of the hint."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        wrongs = [find_wrong_part(value, part, what) for part in parts]
        if None in wrongs:
            return None
        # A union of one type and None: the sentence about its inside is the helpful one.
        inside = [wrong for part, wrong in zip(parts, wrongs, strict=True) if part is not types.NoneType]
        return inside[0] if len(inside) == 1 else _describe_mismatch(what, hint, value)
    if origin is Literal:
        return None if value in parts else f"{what} has to be one of {', '.join(map(repr, parts))}"
    if hint is TopicPartition:
        is_pair = isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)
        return None if is_pair and _is_whole(value[1]) else _describe_mismatch(what, hint, value)  # type: ignore[index]
    if hint is int:
        return None if _is_whole(value) else _describe_mismatch(what, hint, value)
    if hint is float:
        is_number = isinstance(value, float | bool) or _is_whole(value)
        return None if is_number else _describe_mismatch(what, hint, value)
    kind = origin or hint
    if kind is collections.abc.Callable:
        return None if callable(value) else _describe_mismatch(what, hint, value)
    if not isinstance(kind, type) or kind is object or getattr(kind, "_is_protocol", False):
        return None
    if not isinstance(value, kind) or (isinstance(value, _TEXTS) and kind not in _TEXTS):
        return _describe_mismatch(what, hint, value)
    return _find_wrong_element(value, parts, what)


def _find_wrong_element(value: object, parts: tuple[object, ...], what: str) -> str | None:
    """As `find_wrong_part`, for what is inside of a collection. An iterator is left to its reader."""
    if isinstance(value, Mapping) and len(parts) == 2:
        for key, one in value.items():
            wrong = find_wrong_part(key, parts[0], f"a key of {what}") or find_wrong_part(
                one, parts[1], f"{what}[{key!r}]"
            )
            if wrong is not None:
                return wrong
    elif isinstance(value, Collection) and len(parts) == 1 and not isinstance(value, Mapping):
        for index, one in enumerate(value):
            if (wrong := find_wrong_part(one, parts[0], f"{what}[{index}]")) is not None:
                return wrong
    return None


def _is_whole(value: object) -> bool:
    """Whether it can be a whole number, as those of numpy can."""
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _describe_mismatch(what: str, hint: object, value: object) -> str:
    remedy = ""
    if isinstance(value, str) and _has_names(hint):
        remedy = f"; write [{value!r}]"
    elif _without_none(hint) is TopicPartition:
        remedy = "; write TopicPartition('orders', 0)"
    return f"{what} has to be {_describe_type(hint)}, not {kind_of(value)}{remedy}"


def _has_names(hint: object) -> bool:
    inner = _without_none(hint)
    origin = get_origin(inner)
    return (
        isinstance(origin, type)
        and issubclass(origin, collections.abc.Iterable)
        and get_args(inner) == (str,)
    )


def _without_none(hint: object) -> object:
    """The hint without None."""
    inside = [part for part in get_args(hint) if part is not types.NoneType]
    return inside[0] if get_origin(hint) in (Union, types.UnionType) and len(inside) == 1 else hint


def _describe_type(hint: object) -> str:
    """A type for a sentence: `an int`, `a mapping of TopicPartition to int`, `a sequence of str or None`."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint is types.NoneType:
        return "None"
    if origin in (Union, types.UnionType):
        return " or ".join(_describe_type(part) for part in parts)
    if isinstance(origin, type):
        if issubclass(origin, Mapping) and len(parts) == 2:
            return f"a mapping of {_name_type(parts[0])} to {_name_type(parts[1])}"
        if len(parts) == 1:
            return f"{with_article(origin.__name__.lower())} of {_name_type(parts[0])}"
        return with_article(origin.__name__.lower())
    return with_article(_name_type(hint))


def _name_type(hint: object) -> str:
    inside = get_args(hint)
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(_name_type(part) for part in inside)
    return "None" if hint is types.NoneType else getattr(hint, "__name__", str(hint))
