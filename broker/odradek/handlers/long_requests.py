"""Large requests, which one turn of the event loop must not answer as a whole.

    frame -> decoded in a thread -> parts of 250 elements -> handler, a turn each -> joined and encoded in a thread

The API's steps and its handler see each part as a request of its own. So only those APIs are listed here whose elements
are answered each for itself. What a client names twice is found within a part alone. The connection is held until then.
Parts are counted, not timed: a run on virtual time has the same turns again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, cast

from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.turn_limits import REQUEST_ELEMENTS_PER_TURN_MAX
from odradek.protocol.api import ApiKey
from odradek.protocol.messages import Message

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class Split(NamedTuple):
    """The arrays of a request, from the outermost on, and those of its answer in the same order."""

    request: tuple[str, ...]
    answer: tuple[str, ...]


_TOPICS: Final = Split(("topics", "partitions"), ("topics", "partitions"))
_INDEXES: Final = Split(("topics", "partition_indexes"), ("topics", "partitions"))
# Of several, the one whose outermost array the request has.
SPLITS: Final[dict[int, tuple[Split, ...]]] = {
    ApiKey.LIST_OFFSETS: (_TOPICS,),
    ApiKey.OFFSET_COMMIT: (_TOPICS,),
    ApiKey.OFFSET_FETCH: (
        Split(("groups", "topics", "partition_indexes"), ("groups", "topics", "partitions")),
        _INDEXES,
    ),
    ApiKey.OFFSET_DELETE: (_TOPICS,),
    ApiKey.TXN_OFFSET_COMMIT: (_TOPICS,),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (_TOPICS,),
    ApiKey.DELETE_RECORDS: (_TOPICS,),
    ApiKey.DESCRIBE_PRODUCERS: (_INDEXES,),
    ApiKey.FIND_COORDINATOR: (Split(("coordinator_keys",), ("coordinators",)),),
    ApiKey.DESCRIBE_GROUPS: (Split(("groups",), ("groups",)),),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (Split(("group_ids",), ("groups",)),),
    ApiKey.DELETE_GROUPS: (Split(("groups_names",), ("results",)),),
    ApiKey.LEAVE_GROUP: (Split(("members",), ("members",)),),
    ApiKey.DESCRIBE_TRANSACTIONS: (Split(("transactional_ids",), ("transaction_states",)),),
    ApiKey.DESCRIBE_CONFIGS: (Split(("resources",), ("results",)),),
    ApiKey.DELETE_TOPICS: (Split(("topics",), ("responses",)), Split(("topic_names",), ("responses",))),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (Split(("users",), ("results",)),),
}
# What names an element of an answer whose own elements may stand in two parts.
_NAMES: Final = ("name", "topic", "group_id")


def split_of(api_key: int, request: object) -> Split | None:
    """The way in which the request may be split into parts; None where it is answered as a whole."""
    return next((one for one in SPLITS.get(api_key, ()) if getattr(request, one.request[0], None)), None)


def parts_of(
    request: object, split: Split, *, elements_max: int = REQUEST_ELEMENTS_PER_TURN_MAX
) -> list[object]:
    """The request split into requests of `elements_max` innermost elements at most."""
    field, *deeper = split.request
    parts: list[object] = []
    taken: list[object] = []
    count = 0
    for piece, size in _pieces(getattr(request, field), deeper, elements_max):
        if taken and count + size > elements_max:
            parts.append(_replaced(request, field, taken))
            taken, count = [], 0
        taken.append(piece)
        count += size
    parts.append(_replaced(request, field, taken))
    return parts


def _pieces(elements: Iterable[object], path: Sequence[str], size_max: int) -> Iterator[tuple[object, int]]:
    """The elements and how many innermost ones each has; one with more than `size_max` is in pieces."""
    if not path:
        for element in elements:
            yield element, 1
        return
    field, *deeper = path
    for element in elements:
        taken: list[object] = []
        count = 0
        is_whole = True
        for piece, size in _pieces(getattr(element, field) or (), deeper, size_max):
            if taken and count + size > size_max:
                yield _replaced(element, field, taken), count
                taken, count, is_whole = [], 0, False
            taken.append(piece)
            count += size
        yield element if is_whole else _replaced(element, field, taken), max(1, count)


def joined(answers: Sequence[Message], split: Split) -> Message:
    """One answer of the answers to the parts; what is no array comes from the first with an error, or the first."""
    first = next((one for one in answers if getattr(one, "error_code", 0)), answers[0])
    field, *deeper = split.answer
    return cast(Message, _replaced(first, field, _joined([getattr(one, field) for one in answers], deeper)))


def _joined(lists: Iterable[Sequence[object]], path: Sequence[str]) -> list[object]:
    """The elements of all lists. The last of one and the first of the next are one if they have the same name."""
    groups: list[list[object]] = []
    for elements in lists:
        rest = iter(elements)
        if path and groups and elements and _name(groups[-1][-1]) == _name(elements[0]):
            groups[-1].append(next(rest))
        groups.extend([element] for element in rest)
    return [
        group[0]
        if len(group) == 1
        else _replaced(group[0], path[0], _joined([getattr(one, path[0]) for one in group], path[1:]))
        for group in groups
    ]


def _name(element: object) -> object:
    return next((getattr(element, name) for name in _NAMES if hasattr(element, name)), None)


def _replaced(message: object, field: str, elements: Iterable[object]) -> object:
    return dataclasses.replace(cast("DataclassInstance", message), **{field: tuple(elements)})
