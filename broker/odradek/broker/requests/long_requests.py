"""Large requests, which one turn of the event loop must not answer as a whole.

    frame -> decoded in a thread -> parts of 250 elements -> handler, a turn each -> joined and encoded in a thread

The API's steps and its handler see each part as a request of its own. So only those APIs are listed here whose elements
are answered each for itself. What a client names twice is found before, where its API minds (`REPEATS`). The connection
is held until then. Parts are counted, not timed: a run on virtual time has the same turns again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from operator import attrgetter
from typing import TYPE_CHECKING, Final, cast

from odradek.broker.requests import failures
from odradek.broker.requests.long_answers import free
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.turn_limits import REQUEST_ELEMENTS_PER_TURN_MAX
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.codec import decode_typed_request, encode_response
from odradek.wire.protocol.messages import Message

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from odradek.wire.protocol.framing import RequestHeader


class Split(NamedTuple):
    """The arrays of a request, from the outermost on, and those of its answer in the same order."""

    request: tuple[str, ...]
    answer: tuple[str, ...]


class LargeRequest:
    """A request while it is answered. The thread makes and frees what it holds, so that the event loop need not.

    Python frees an array at once, and holds up all threads until then: a second for a million elements. So whole arrays
    are dropped while the elements are in parts, and each part is freed by itself.
    """

    def __init__(self, header: RequestHeader) -> None:
        self._header = header
        self._split: Split | None = None
        self.named_twice: Set[object] = frozenset()
        """The elements that the request names more than once, for APIs that answer such."""
        self.parts: list[object] = []
        """The request in parts, in their order, or as a whole."""
        self.answers: list[Message] = []
        """The answers to the first parts."""

    def decode(self, frame: memoryview) -> None:
        """Read the request. Raises InvalidRequest."""
        header = self._header
        request = decode_typed_request(header.api_key, header.api_version, frame, header.body_position)
        repeats = REPEATS.get(header.api_key)
        if repeats is not None:
            request, self.named_twice = without_repeats(request, repeats)
        split = self._split = split_of(header.api_key, request)
        self.parts = [request] if split is None else parts_of(request, split)

    def encode(self) -> bytes:
        """The frame of the answer to all parts."""
        header, answers = self._header, self.answers
        answer = answers[0] if self._split is None else join_answers(answers, self._split)
        return encode_response(header.api_key, header.api_version, header.correlation_id, answer)

    def refuse(self, error: Exception) -> bytes:
        """The frame of the answer that has the error in each element. Raises the error where the API has none."""
        header = self._header
        free(self.answers)
        for part in self.parts:
            answer = failures.answer(header.api_key, header.api_version, part, error)
            if answer is None:
                raise error
            self.answers.append(answer)
        return self.encode()

    def free(self) -> None:
        """Give back the memory of all parts and answers."""
        free(self.parts)
        free(self.answers)


_TOPICS: Final = Split(("topics", "partitions"), ("topics", "partitions"))
_STATES: Final = Split(("topics", "partitions"), ("results", "partitions"))
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
    ApiKey.STREAMS_GROUP_DESCRIBE: (Split(("group_ids",), ("groups",)),),
    ApiKey.SHARE_GROUP_DESCRIBE: (Split(("group_ids",), ("groups",)),),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (
        Split(("groups", "topics", "partitions"), ("groups", "topics", "partitions")),
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: (Split(("topics", "partitions"), ("responses", "partitions")),),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: (Split(("topics",), ("responses",)),),
    **dict.fromkeys(
        (
            ApiKey.INITIALIZE_SHARE_GROUP_STATE,
            ApiKey.READ_SHARE_GROUP_STATE,
            ApiKey.WRITE_SHARE_GROUP_STATE,
            ApiKey.DELETE_SHARE_GROUP_STATE,
            ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
        ),
        (_STATES,),
    ),
    ApiKey.DELETE_GROUPS: (Split(("groups_names",), ("results",)),),
    ApiKey.LEAVE_GROUP: (Split(("members",), ("members",)),),
    ApiKey.DESCRIBE_TRANSACTIONS: (Split(("transactional_ids",), ("transaction_states",)),),
    ApiKey.DESCRIBE_CONFIGS: (Split(("resources",), ("results",)),),
    ApiKey.DELETE_TOPICS: (Split(("topics",), ("responses",)), Split(("topic_names",), ("responses",))),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (Split(("users",), ("results",)),),
}


class Repeats(NamedTuple):
    """How an API answers for elements that a request names more than once: each of them stands in one part only."""

    arrays: tuple[str, ...]
    """The arrays of the request, one of which each version has."""
    deeper: str
    """The array in their elements whose elements count, if any."""
    key: Callable[[object], object]
    keeps_last: bool = False


_name_of: Final = attrgetter("name")
_name_and_id: Final = attrgetter("name", "topic_id")


def topic_asked_for(topic: object) -> object:
    """(name, id) of a topic to delete, as the version of its request has it."""
    return (topic, None) if isinstance(topic, str) else _name_and_id(topic)


_TOPIC_PARTITIONS: Final = Repeats(("topics",), "partitions", attrgetter("partition_index"))
# As in Kafka 4.1.1. DeleteGroups and DeleteRecords take one of them, the others refuse all of them. Other APIs answer
# each by itself.
REPEATS: Final[dict[int, Repeats]] = {
    ApiKey.LIST_OFFSETS: _TOPIC_PARTITIONS,
    ApiKey.DELETE_RECORDS: _TOPIC_PARTITIONS._replace(keeps_last=True),
    ApiKey.DELETE_GROUPS: Repeats(("groups_names",), "", str),
    ApiKey.DELETE_TOPICS: Repeats(("topics", "topic_names"), "", topic_asked_for),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Repeats(("users",), "", attrgetter("name")),
}
# What names an element of an answer whose own elements may stand in two parts.
_NAMES: Final = ("name", "topic", "topic_name", "topic_id", "group_id")


def split_of(api_key: int, request: object) -> Split | None:
    """The way in which the request may be split into parts; None where it is answered as a whole."""
    return next((one for one in SPLITS.get(api_key, ()) if getattr(request, one.request[0], None)), None)


def without_repeats(request: object, repeats: Repeats) -> tuple[object, Set[object]]:
    """The request with each element once, and the keys of those that it names more often."""
    field = next((one for one in repeats.arrays if getattr(request, one, None)), None)
    if field is None:
        return request, frozenset()
    elements = getattr(request, field)
    left = dict[object, int]()
    twice = set[object]()
    for key in _keys(elements, repeats):
        count = left.get(key, 0)
        left[key] = count + 1
        if count:
            twice.add(key)
    if twice:
        kept: list[object] = []
        seen = set[object]()

        def is_kept(key: object) -> bool:
            if key not in twice:
                return True
            left[key] -= 1
            is_first = key not in seen
            seen.add(key)
            return left[key] == 0 if repeats.keeps_last else is_first

        for element in elements:
            if not repeats.deeper:
                if is_kept(repeats.key(element)):
                    kept.append(element)
                continue
            inner = getattr(element, repeats.deeper)
            remaining = [one for one in inner if is_kept((_name_of(element), repeats.key(one)))]
            if len(remaining) == len(inner):
                kept.append(element)
            elif remaining:
                kept.append(_replace_field(element, repeats.deeper, remaining))
        request = _replace_field(request, field, kept)
    while left:
        # One by one, in between which other threads run.
        left.popitem()
    return request, twice


def _keys(elements: Iterable[object], repeats: Repeats) -> Iterator[object]:
    for element in elements:
        if not repeats.deeper:
            yield repeats.key(element)
            continue
        for inner in getattr(element, repeats.deeper):
            yield _name_of(element), repeats.key(inner)


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
            parts.append(_replace_field(request, field, taken))
            taken, count = [], 0
        taken.append(piece)
        count += size
    parts.append(_replace_field(request, field, taken))
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
                yield _replace_field(element, field, taken), count
                taken, count, is_whole = [], 0, False
            taken.append(piece)
            count += size
        yield element if is_whole else _replace_field(element, field, taken), max(1, count)


def join_answers(answers: Sequence[Message], split: Split) -> Message:
    """One answer of the answers to the parts; what is no array comes from the first with an error, or the first."""
    first = next((one for one in answers if getattr(one, "error_code", 0)), answers[0])
    field, *deeper = split.answer
    return cast(
        Message, _replace_field(first, field, _join_lists([getattr(one, field) for one in answers], deeper))
    )


def _join_lists(lists: Iterable[Sequence[object]], path: Sequence[str]) -> list[object]:
    """The elements of all lists. The last of one and the first of the next are one if they have the same name."""
    found: list[object] = []
    pieces: list[object] = []
    for elements in lists:
        rest = elements
        if path and pieces and elements and _name(pieces[-1]) == _name(elements[0]):
            pieces.append(elements[0])
            rest = elements[1:]
        if rest:
            found += _one(pieces, path)
            found += rest[:-1]
            pieces = [rest[-1]]
    found += _one(pieces, path)
    return found


def _one(pieces: Sequence[object], path: Sequence[str]) -> Sequence[object]:
    """The element that stands in pieces, if there is any."""
    if len(pieces) <= 1:
        return pieces
    return [
        _replace_field(pieces[0], path[0], _join_lists([getattr(one, path[0]) for one in pieces], path[1:]))
    ]


def _name(element: object) -> object:
    return next((getattr(element, name) for name in _NAMES if hasattr(element, name)), None)


def _replace_field(message: object, field: str, elements: Iterable[object]) -> object:
    return dataclasses.replace(cast("DataclassInstance", message), **{field: tuple(elements)})
