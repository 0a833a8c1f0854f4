"""What a request is about: its group and its first topic. It is found only for requests that are shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from odradek.foundation.errors import InvalidRequest
from odradek.foundation.ids import TopicId
from odradek.foundation.log_lines import printable_start
from odradek.foundation.turn_limits import SLOW_REQUEST_TEXT_BYTES_MAX
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.hot.fetch_request import FetchRequest, parse_fetch_request
from odradek.wire.protocol.hot.produce import parse_produce_request

if TYPE_CHECKING:
    from odradek.metadata.image.image import ClusterImage
    from odradek.wire.protocol.framing import RequestHeader

Fields = dict[str, object]

_ID_BYTES: Final = 16
# The names that the first resource of a request may have.
_TOPIC_NAMES: Final = ("name", "topic", "topic_name")
_GROUP_NAMES: Final = ("group_id", "group")


def parse_request(request: object, header: RequestHeader) -> object:
    """The request with its fields; None for a large one, which is answered in parts."""
    if not isinstance(request, memoryview):
        return request
    try:
        if header.api_key == ApiKey.PRODUCE:
            return parse_produce_request(header.api_version, request, header.body_position)
        if header.api_key == ApiKey.FETCH:
            return parse_fetch_request(header.api_version, request, header.body_position)
    except InvalidRequest:
        pass  # The answer says so, and has named no topic either.
    return None


def describe_subjects(request: object, image: ClusterImage) -> Fields:
    """The group, and the first topic with the number of all, where a request has them."""
    group = _name_in(request, _GROUP_NAMES) or _name_in(_first(getattr(request, "groups", ())), _GROUP_NAMES)
    if isinstance(request, FetchRequest):
        topic = _topic_name(request.partitions[0][0], image) if request.partitions else ""
        topics = len({partition[0] for partition in request.partitions})
    else:
        asked = getattr(request, "topics", None) or ()
        first, topics = _first(asked), len(asked)
        key = getattr(first, "key", None) or getattr(first, "topic_id", None)
        topic = _name_in(first, _TOPIC_NAMES) or ("" if key is None else _topic_name(key, image))
    return {
        "group": shorten(group) if group else None,
        "topic": shorten(topic) if topic else None,
        "topics": topics if topics > 1 else None,
    }


def _first(elements: Sequence[object] | None) -> object:
    return elements[0] if elements else None


def _name_in(element: object, names: tuple[str, ...]) -> str:
    """The name of an element of a request, which may be a name itself; empty where it has none."""
    if isinstance(element, str):
        return element
    found = (getattr(element, name, None) for name in names)
    return next((name for name in found if name and isinstance(name, str)), "")


def _topic_name(key: object, image: ClusterImage) -> str:
    """The name of a topic that a request names by its name or its id."""
    if isinstance(key, bytes) and len(key) == _ID_BYTES:
        key = TopicId(bytes=key)
    topic = image.topics_by_id.get(key) if isinstance(key, TopicId) else None
    return str(key) if topic is None else topic.name


def shorten(text: str) -> str:
    """A client's text as a line or a trace may have it."""
    return printable_start(text, SLOW_REQUEST_TEXT_BYTES_MAX)
