"""Checks in general: of a whole request, and of each element of an array in it.

A check is called in the handler's place, with the handler. It calls the handler for what is allowed, and answers the
rest itself, in the shape of the API's answer (`failures`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Generic, Never, Protocol, TypeVar, cast

from odradek.broker.requests import failures
from odradek.broker.requests.context import AnyContext, RequestContext
from odradek.broker.requests.loading import Answer, Handle
from odradek.broker.requests.long_answers import free, make_in_turns
from odradek.broker.requests.rights.rights import Rights
from odradek.foundation.errors import RequestError
from odradek.foundation.ids import TopicId
from odradek.foundation.loop_turns import next_turn
from odradek.foundation.turn_limits import REQUEST_ELEMENTS_PER_TURN_MAX
from odradek.foundation.turns import Leftovers
from odradek.network.pending import Pending
from odradek.security.authorization.acls import AclOperation, AclResourceType
from odradek.wire.protocol.frames import Frame
from odradek.wire.protocol.messages import Message, structure_builder
from odradek.wire.protocol.schema import RESPONSE, fields_of, message_class

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# The type of an API's requests, of the elements of an array in them, and of its responses.
R = TypeVar("R")
E = TypeVar("E")
A = TypeVar("A")
M = TypeVar("M")

# The table erases the types of requests and of contexts: each check has those of its own API.
Check = Callable[[Handle, R, RequestContext[Never], Rights], Answer]
# One that looks at nothing which a family has for itself.
AnyCheck = Callable[[Handle, R, AnyContext, Rights], Answer]
# What a request needs as a whole: raises the error of a denied operation.
Need = Callable[[R, Rights], None]
# What one element of a request needs: the error of a denied operation, or None.
ElementNeed = Callable[[R, E, Rights], RequestError | None]


class Named(Protocol):
    """An element with the name of a topic."""

    name: str


class WithTopicId(Protocol):
    """An element with the id of a topic."""

    topic_id: TopicId | None


class OfGroup(Protocol):
    """A request about one group."""

    group_id: str


class OfTransaction(Protocol):
    """A request about one transactional id."""

    transactional_id: str


def nothing(handle: Handle, request: object, context: AnyContext, rights: Rights) -> Answer:
    """Every client may send it; what the answer shows may still depend on rights."""
    return handle(request, context)


def whole(*needs: Need[R]) -> AnyCheck[R]:
    """All or nothing: the request needs each of `needs`."""

    def check(handle: Handle, request: R, context: AnyContext, rights: Rights) -> Answer:
        for need in needs:
            need(request, rights)
        return handle(request, context)

    return check


def on_cluster(*operations: AclOperation) -> Need[object]:
    """One of these operations on the cluster; the first is named in the log."""

    def need(request: object, rights: Rights) -> None:
        if not any(rights.may_instead(one, AclResourceType.CLUSTER) for one in operations):
            rights.require(operations[0], AclResourceType.CLUSTER)

    return need


def reads_group(request: OfGroup, rights: Rights) -> None:
    rights.require(AclOperation.READ, AclResourceType.GROUP, request.group_id)


def writes_transaction(request: OfTransaction, rights: Rights) -> None:
    """Write of the transactional id."""
    rights.require(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id)


def on_topic(operation: AclOperation) -> ElementNeed[object, Named]:
    def need(request: object, element: Named, rights: Rights) -> RequestError | None:
        return rights.refusal(operation, AclResourceType.TOPIC, element.name)

    return need


def name_of(topic: object, rights: Rights, first_with_ids: int) -> str | None:
    """The name of a topic that a message has by id from a version on; None for an id that is not known."""
    if rights.api_version >= first_with_ids:
        return rights.name_of_id(cast(WithTopicId, topic).topic_id)
    return cast(Named, topic).name


def on_topic_or_id(operation: AclOperation, first_with_ids: int) -> ElementNeed[object, object]:
    """The operation on a topic that has an id from a version on. The handler answers for an id that is not known."""

    def need(request: object, element: object, rights: Rights) -> RequestError | None:
        name = name_of(element, rights, first_with_ids)
        return None if name is None else rights.refusal(operation, AclResourceType.TOPIC, name)

    return need


def on_element(operation: AclOperation, resource_type: AclResourceType) -> ElementNeed[object, str]:
    """The operation on the resource whose name an element is."""

    def need(request: object, element: str, rights: Rights) -> RequestError | None:
        return rights.refusal(operation, resource_type, element)

    return need


class _Sorting(Generic[R, E]):
    """The elements of an array that the client may use, and the others by the error that they are answered."""

    def __init__(self, request: R, need: ElementNeed[R, E], rights: Rights) -> None:
        self._request = request
        self._need = need
        self._rights = rights
        self.allowed: list[E] = []
        self.denied: dict[type[RequestError], tuple[RequestError, list[E]]] = {}

    def take(self, elements: Iterable[E]) -> None:
        for element in elements:
            error = self._need(self._request, element, self._rights)
            if error is None:
                self.allowed.append(element)
            else:
                self.denied.setdefault(type(error), (error, []))[1].append(element)


def each(field: str, element_need: ElementNeed[R, E], *needs: Need[R], **defaults: object) -> AnyCheck[R]:
    """Each element of an array by itself, once the request has what it needs as a whole.

    `defaults` are values that the answer's element has besides the error.
    """

    def check(handle: Handle, request: R, context: AnyContext, rights: Rights) -> Answer:
        for need in needs:
            need(request, rights)
        elements = getattr(request, field) or ()
        sorting = _Sorting(request, element_need, rights)
        if len(elements) > REQUEST_ELEMENTS_PER_TURN_MAX:
            return Pending(check_in_parts(handle, request, context, elements, sorting))
        sorting.take(elements)
        refused = refusal(request, context, sorting) if sorting.denied else None
        return answer_allowed(handle, request, context, sorting, refused)

    async def check_in_parts(
        handle: Handle,
        request: R,
        context: AnyContext,
        elements: Sequence[E],
        sorting: _Sorting[R, E],
    ) -> Message | Frame | None:
        async with Leftovers() as kept:
            kept.until_end(sorting.allowed)
            for start in range(0, len(elements), REQUEST_ELEMENTS_PER_TURN_MAX):
                sorting.take(elements[start : start + REQUEST_ELEMENTS_PER_TURN_MAX])
                await next_turn()
            for _, denied in sorting.denied.values():
                kept.until_end(denied)
            refused = None
            if sorting.denied:
                refused = await make_in_turns(
                    context, len(elements), lambda: refusal(request, context, sorting)
                )
            answer = answer_allowed(handle, request, context, sorting, refused)
            return await answer if isinstance(answer, Pending) else answer

    def refusal(request: R, context: AnyContext, sorting: _Sorting[R, E]) -> Message:
        """The answer for all that is denied."""
        answer: Message | None = None
        for error, elements in sorting.denied.values():
            part = _answer_denied(replace(request, **{field: tuple(elements)}), context, error, defaults)
            answer = part if answer is None else join_messages(part, answer)
        assert answer is not None
        return answer

    def answer_allowed(
        handle: Handle,
        request: R,
        context: AnyContext,
        sorting: _Sorting[R, E],
        refused: Message | None,
    ) -> Answer:
        if refused is None:
            return handle(request, context)
        if not sorting.allowed:
            return refused
        return join_denied(handle(replace(request, **{field: tuple(sorting.allowed)}), context), refused)

    return check


def partition_elements(elements: Iterable[E], is_allowed: Callable[[E], bool]) -> tuple[list[E], list[E]]:
    """The elements that are allowed and the others, each asked about once."""
    allowed: list[E] = []
    others: list[E] = []
    for element in elements:
        (allowed if is_allowed(element) else others).append(element)
    return allowed, others


_TOP: Final = ("error_code", "error_message")


def _answer_denied(
    request: object, context: AnyContext, error: RequestError, defaults: Mapping[str, object]
) -> Message:
    """The answer for the elements of `request`, all denied; it has no error of the whole."""
    header = context.header
    answer = failures.answer(header.api_key, header.api_version, request, error)
    assert answer is not None
    structure = message_class(header.api_key, header.api_version, RESPONSE)
    names = [field.name for field in fields_of(structure)]
    empty = structure_builder(structure)({})
    changes: dict[str, object] = {name: getattr(empty, name) for name in _TOP if name in names}
    if defaults:
        for name in names:
            value = getattr(answer, name)
            if isinstance(value, tuple):
                changes[name] = tuple([_with_defaults(one, defaults) for one in value])
    fixed = replace(answer, **changes)
    if defaults:
        free([answer])
    return fixed


def _with_defaults(element: M, defaults: Mapping[str, object]) -> M:
    changes: dict[str, object] = {}
    for name in _names(element):
        value = getattr(element, name)
        if name in defaults:
            changes[name] = defaults[name]
        elif isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
            changes[name] = tuple(_with_defaults(one, defaults) for one in value)
    return replace(element, **changes)


def join_denied(answer: Answer, denied: Message) -> Answer:
    """The answer with the elements of `denied` besides its own."""
    return change_answer(answer, lambda ready: join_messages(cast(Message, ready), denied))


def join_messages(answer: M, denied: object) -> M:
    """As `joined`, of an answer that is there."""
    changes = {
        name: (*getattr(denied, name), *getattr(answer, name))
        for name in _names(denied)
        if isinstance(getattr(denied, name), tuple) and getattr(denied, name)
    }
    return replace(answer, **changes)


def change_answer(answer: Answer, change: Callable[[A], Message]) -> Answer:
    """The answer of a handler after `change`, now or once it is there."""
    if isinstance(answer, Pending):
        return cast("Pending[A]", answer).then(change)
    return change(cast(A, answer))


def replace(message: M, **changes: object) -> M:
    """A copy of a message with other fields; fields that its version lacks are left out."""
    known = _names(message)
    instance = cast("DataclassInstance", message)
    known_changes = {name: value for name, value in changes.items() if name in known}
    return cast(M, dataclasses.replace(instance, **known_changes))


def _names(message: object) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(cast("DataclassInstance", message)))
