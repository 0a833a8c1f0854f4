"""Checks in general: of a whole request, and of each element of an array in it.

A check is called in the handler's place, with the handler. It calls the handler for what is allowed, and answers the
rest itself, in the shape of the API's answer (`failures`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from odradek.authorization.acls import AclOperation, ResourceType
from odradek.foundation.errors import RequestError
from odradek.handlers import failures
from odradek.handlers.authorization.rights import Rights
from odradek.handlers.context import RequestContext
from odradek.handlers.loading import Answer, Handle
from odradek.protocol.messages import Message, structure_builder
from odradek.protocol.schema import RESPONSE, fields_of, message_class
from odradek.transport.pending import Pending

Check = Callable[[Handle, Any, RequestContext, Rights], Answer]
# What a request needs as a whole: raises the error of a denied operation.
Need = Callable[[Any, Rights], None]
# What one element of a request needs: the error of a denied operation, or None.
ElementNeed = Callable[[Any, Any, Rights], RequestError | None]


def nothing(handle: Handle, request: Any, context: RequestContext, rights: Rights) -> Answer:
    """Every client may send it; what the answer shows may still depend on rights."""
    return handle(request, context)


def whole(*needs: Need) -> Check:
    """All or nothing: the request needs each of `needs`."""

    def check(handle: Handle, request: Any, context: RequestContext, rights: Rights) -> Answer:
        for need in needs:
            need(request, rights)
        return handle(request, context)

    return check


def on_cluster(*operations: AclOperation) -> Need:
    """One of these operations on the cluster; the first is named in the log."""

    def need(request: Any, rights: Rights) -> None:
        if not any(rights.could(one, ResourceType.CLUSTER) for one in operations):
            rights.require(operations[0], ResourceType.CLUSTER)

    return need


def on_named(operation: AclOperation, resource_type: ResourceType, field: str) -> Need:
    """The operation on the resource that a field of the request names."""

    def need(request: Any, rights: Rights) -> None:
        rights.require(operation, resource_type, getattr(request, field))

    return need


def on_element(operation: AclOperation, resource_type: ResourceType, field: str | None = None) -> ElementNeed:
    """The operation on the resource that an element names, by its field, or is."""

    def need(request: Any, element: Any, rights: Rights) -> RequestError | None:
        return rights.refusal(operation, resource_type, element if field is None else getattr(element, field))

    return need


def each(field: str, element_need: ElementNeed, *needs: Need, **defaults: object) -> Check:
    """Each element of an array by itself, once the request has what it needs as a whole.

    `defaults` are values that the answer's element has besides the error.
    """

    def check(handle: Handle, request: Any, context: RequestContext, rights: Rights) -> Answer:
        for need in needs:
            need(request, rights)
        allowed = []
        denied: dict[type[RequestError], tuple[RequestError, list[Any]]] = {}
        for element in getattr(request, field) or ():
            error = element_need(request, element, rights)
            if error is None:
                allowed.append(element)
            else:
                denied.setdefault(type(error), (error, []))[1].append(element)
        if not denied:
            return handle(request, context)
        answer: Message | None = None
        for error, elements in denied.values():
            part = _denied(replace(request, **{field: tuple(elements)}), context, error, defaults)
            answer = part if answer is None else cast(Message, joined(part, answer))
        assert answer is not None
        return (
            joined(handle(replace(request, **{field: tuple(allowed)}), context), answer)
            if allowed
            else answer
        )

    return check


_TOP: Final = ("error_code", "error_message")


def _denied(
    request: Any, context: RequestContext, error: RequestError, defaults: Mapping[str, object]
) -> Message:
    """The answer for the elements of `request`, all denied; it has no error of the whole."""
    header = context.header
    answer = failures.answer(header.api_key, header.api_version, request, error)
    structure = message_class(header.api_key, header.api_version, RESPONSE)
    names = [field.name for field in fields_of(structure)]
    empty = structure_builder(structure)({})
    changes: dict[str, object] = {name: getattr(empty, name) for name in _TOP if name in names}
    if defaults:
        for name in names:
            value = getattr(answer, name)
            if isinstance(value, tuple):
                changes[name] = tuple(_with_defaults(one, defaults) for one in value)
    return cast(Message, replace(answer, **changes))


def _with_defaults(element: Any, defaults: Mapping[str, object]) -> Any:
    changes: dict[str, object] = {}
    for field in dataclasses.fields(element):
        value = getattr(element, field.name)
        if field.name in defaults:
            changes[field.name] = defaults[field.name]
        elif isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
            changes[field.name] = tuple(_with_defaults(one, defaults) for one in value)
    return replace(element, **changes)


def joined(answer: Answer, denied: Message) -> Answer:
    """The answer with the elements of `denied` besides its own."""
    if isinstance(answer, Pending):
        pending = cast("Pending[Message]", answer)
        return pending.then(lambda ready: cast(Message, joined(ready, denied)))
    changes = {
        field.name: (*getattr(denied, field.name), *getattr(answer, field.name))
        for field in dataclasses.fields(cast(Any, denied))
        if isinstance(getattr(denied, field.name), tuple) and getattr(denied, field.name)
    }
    return cast(Message, replace(answer, **changes))


def changed(answer: Answer, change: Callable[[Any], Message]) -> Answer:
    """The answer of a handler after `change`, now or once it is there."""
    if isinstance(answer, Pending):
        return cast("Pending[Message]", answer).then(change)
    return change(answer)


def replace(message: Any, **changes: object) -> Any:
    """A copy of a message with other fields; fields that its version lacks are left out."""
    known = {field.name for field in dataclasses.fields(message)}
    return dataclasses.replace(message, **{name: value for name, value in changes.items() if name in known})
