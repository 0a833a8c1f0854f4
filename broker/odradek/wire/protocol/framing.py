"""Frames in a stream of bytes, and the header that each frame begins with.

    size     int32   bytes that follow, 0 <= size <= the bound
    header   request  v1   api_key int16, api_version int16, correlation_id int32, client_id nullable string
                      v2   the same, then tagged fields; client_id keeps its int16 length, although flexible
                      v0   the same without client_id: only ControlledShutdown version 0, which none asks today
             response v0   correlation_id int32
                      v1   the same, then tagged fields
    body     bytes

A `FrameReader` does no I/O. It says where the next bytes should be received (`get_buffer`). `received` takes how many
arrived, and returns the frames that are complete. Many readers share one receive buffer, because between two reads a
connection keeps only the beginning of an unfinished frame. So ten thousand idle connections hold no buffers. Bytes are
copied out of the shared buffer once for all the frames in it. A large frame is received in place, in its own memory.

A frame's memory is its receiver's alone and writable, so a log may set offsets in a batch where it lies.
Frames that arrived together share one allocation: a small frame kept for long keeps its neighbours.

Headers v2 and v1 go with flexible versions. The answer to ApiVersions always has header v0. A client that asks for a
version unknown to the broker must be able to read it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from struct import Struct, error
from typing import Final

from odradek.foundation.errors import FrameError, InvalidRequest
from odradek.foundation.limits import (
    FRAME_BYTES_BEFORE_RESERVE,
    FRAME_BYTES_RESERVED_FIRST,
    RECEIVE_BUFFER_BYTES,
)
from odradek.foundation.named_tuple import NamedTuple
from odradek.wire.protocol.api import API_KEY_MAX, FIRST_FLEXIBLE_VERSION, ApiKey, is_flexible
from odradek.wire.protocol.varint import skip_tagged_fields

SIZE_BYTES: Final = 4
_SIZE: Final = Struct(">i")
# A TLS record of the kind handshake, versions 1.0 to 1.3 and SSL 3 (RFC 8446, section 5.1).
_TLS_HANDSHAKE: Final = b"\x16\x03"
_HTTP_METHODS: Final = frozenset((b"GET ", b"HEAD", b"POST", b"PUT ", b"OPTI", b"CONN", b"PRI "))
_size_at = _SIZE.unpack_from
# Of a request's header; what follows depends on the client id's length and the version.
_FIXED: Final = Struct(">hhih")
_fixed_at = _FIXED.unpack_from
_FIXED_BYTES: Final = _FIXED.size
_FIXED_WITHOUT_CLIENT_ID_BYTES: Final = 8
_new = tuple.__new__
_NO_TAGS: Final = b"\0"
_UNBOUNDED: Final = 1 << 62


def receive_buffer() -> memoryview:
    """Memory for the readers of one event loop to share: each fills and empties it within one callback."""
    return memoryview(bytearray(RECEIVE_BUFFER_BYTES))


def _is_never_short() -> bool:
    return False


class FrameReader:
    """Finds the frames of one connection.

    `size_max` is the largest body allowed, in bytes. After a wrong size `failure` holds the FrameError that says so.
    Everything received later is ignored, since no frame boundary can be found again. While `is_memory_short`, frames
    get memory in small steps. Of frames that arrive together, `frames_at_once_max` are found at once; while `has_more`,
    `more` finds the next.
    """

    __slots__ = (
        "_frames_at_once_max",
        "_is_memory_short",
        "_large",
        "_large_size",
        "_position",
        "_rest",
        "_shared",
        "_unsplit",
        "bytes_held",
        "failure",
        "size_max",
    )

    def __init__(
        self,
        size_max: int,
        shared: memoryview | None = None,
        is_memory_short: Callable[[], bool] = _is_never_short,
        frames_at_once_max: int = _UNBOUNDED,
    ) -> None:
        self.size_max = size_max
        self.failure: FrameError | None = None
        self._shared = receive_buffer() if shared is None else shared
        self._is_memory_short = is_memory_short
        self._frames_at_once_max = frames_at_once_max
        self._rest: bytearray | None = None  # the beginning of an unfinished frame, its size included
        self._large: memoryview | None = None  # memory reserved for the unfinished frame
        self._large_size = 0  # the whole unfinished frame, its size included
        self._position = 0  # bytes of the unfinished frame that have arrived in `_large`
        self._unsplit: memoryview | None = None  # bytes whose frames are not looked for yet
        self.bytes_held = 0
        """Memory that this reader keeps between two reads, in bytes."""

    def get_buffer(self) -> memoryview:
        """Where the next bytes belong; valid until `received` is called."""
        large = self._large
        return self._shared if large is None else large[self._position :]

    def take_received(self, size: int) -> list[memoryview]:
        """The frames completed by the `size` bytes now in the buffer that `get_buffer` gave last."""
        if self._large is not None:
            return self._take_large(size)
        unsplit = self._unsplit
        if unsplit is not None:
            # Read although there is more to split: the caller was slow to pause reading.
            self._unsplit = memoryview(bytearray(unsplit) + self._shared[:size])
            return []
        return self._split(self._shared[:size])

    @property
    def has_more(self) -> bool:
        """Whether bytes are left in which frames have not been looked for."""
        return self._unsplit is not None

    def more(self) -> list[memoryview]:
        """The next frames of what was received already."""
        unsplit, self._unsplit = self._unsplit, None
        return [] if unsplit is None else self._find(unsplit)

    def drop(self) -> None:
        """Give up the unfinished frame: its connection ends."""
        self._rest = self._large = self._unsplit = None
        self._position = self.bytes_held = 0

    def _split(self, arrived: memoryview) -> list[memoryview]:
        if self.failure is not None:
            return []
        rest = self._rest
        if rest is None:
            data = bytearray(arrived)
        else:
            rest += arrived
            data = rest
            self._rest = None
            self.bytes_held = 0
        return self._find(memoryview(data))

    def _find(self, view: memoryview) -> list[memoryview]:
        frames: list[memoryview] = []
        frames_max = self._frames_at_once_max
        position, end = 0, len(view)
        while end - position >= SIZE_BYTES:
            if len(frames) >= frames_max:
                self._unsplit = view[position:]
                return frames
            (size,) = _size_at(view, position)
            if not 0 <= size <= self.size_max:
                self._fail(size, bytes(view[position : position + SIZE_BYTES]))
                return frames
            after = position + SIZE_BYTES + size
            if after > end:
                self._keep(view, position, whole=SIZE_BYTES + size)
                return frames
            frames.append(view[position + SIZE_BYTES : after])
            position = after
        if position < end:
            self._keep(view, position, whole=SIZE_BYTES)
        return frames

    def _keep(self, view: memoryview, position: int, *, whole: int) -> None:
        """Keep an unfinished frame: as the bytes that came, or in memory of its own once it has shown that
        it is large.
        """
        arrived = len(view) - position
        if arrived < FRAME_BYTES_BEFORE_RESERVE:
            self._rest = bytearray(view[position:])
            self.bytes_held = arrived
            return
        self._reserve(view[position:], whole=whole)

    def _reserve(self, beginning: memoryview, *, whole: int) -> None:
        # Not the whole announced size: a peer makes the broker hold at most the first step, or twice what it sent.
        arrived = len(beginning)
        step = 2 * arrived
        if step < FRAME_BYTES_RESERVED_FIRST and not self._is_memory_short():
            step = FRAME_BYTES_RESERVED_FIRST
        large = memoryview(bytearray(min(whole, step)))
        large[:arrived] = beginning
        self._large = large
        self._large_size = whole
        self._position = arrived
        self.bytes_held = len(large)

    def _take_large(self, size: int) -> list[memoryview]:
        large = self._large
        assert large is not None
        self._position += size
        if self._position < len(large):
            return []
        if len(large) < self._large_size:
            self._reserve(large, whole=self._large_size)
            return []
        self._large = None
        self.bytes_held = 0
        return [large[SIZE_BYTES:]]

    def _fail(self, size: int, beginning: bytes) -> None:
        announced = f"a frame announces {size} bytes, allowed are 0 to {self.size_max}"
        if beginning.startswith(_TLS_HANDSHAKE):
            guess = "the peer begins a TLS handshake, and this is plain text; set security.protocol=PLAINTEXT there"
        elif beginning in _HTTP_METHODS:
            guess = "the peer speaks HTTP; this is Kafka's protocol"
        else:
            guess = "the peer speaks another protocol, or socket.request.max.bytes is too small for it"
        self.failure = FrameError(f"{announced}; {guess}")


# --- headers ---------------------------------------------------------------------------------------------------------


class RequestHeader(NamedTuple):
    """The header of every request. `client_id` is empty when the client sent null, as Apache Kafka treats it."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    body_position: int


class TaggedRequestHeader(RequestHeader):
    """A header with tagged fields: `tagged_fields` is their bytes, from their count on."""

    tagged_fields: memoryview


REQUEST_TAGS: Final[ContextVar[bytes]] = ContextVar("request_tags", default=_NO_TAGS)
"""The tagged fields, encoded, of the headers of requests that are made in this context. A peer skips unknown ones."""


def parse_request_header(frame: memoryview) -> RequestHeader:
    """The header at the start of `frame`; the body begins at its `body_position`.

    Raises InvalidRequest when the frame ends within the header or the client id is not UTF-8. It also raises it for an
    unknown API, since the header's version depends on the API. A version that does not exist is not an error here.
    """
    try:
        api_key, api_version, correlation_id, client_id_bytes = _fixed_at(frame)
    except error:
        return _parse_without_client_id(frame)
    if not 0 <= api_key <= API_KEY_MAX:
        raise InvalidRequest(
            f"a request names the API {api_key}, which does not exist; the peer may speak another protocol"
        )
    if api_version < 0:
        raise InvalidRequest(f"a request of {ApiKey(api_key).name} names the version {api_version}")
    position = _FIXED_BYTES
    client_id = ""
    if client_id_bytes > 0:
        position += client_id_bytes
        if position > len(frame):
            raise InvalidRequest(
                f"the client id of a request is said to have {client_id_bytes} bytes, but "
                f"{len(frame) - _FIXED_BYTES} follow; the frame was cut off"
            )
        try:
            client_id = str(frame[_FIXED_BYTES:position], "utf-8")
        except UnicodeDecodeError as failure:
            raise InvalidRequest(f"the client id of a request is not UTF-8: {failure}") from failure
    elif client_id_bytes < -1:
        raise InvalidRequest(f"the client id of a request has the length {client_id_bytes}")
    if api_version >= FIRST_FLEXIBLE_VERSION[api_key]:
        if position < len(frame) and frame[position] == 0:
            position += 1
        else:
            start, position = position, skip_tagged_fields(frame, position)
            tagged: TaggedRequestHeader = _new(
                TaggedRequestHeader, (api_key, api_version, correlation_id, client_id, position)
            )
            tagged.tagged_fields = frame[start:position]
            return tagged
    return _new(RequestHeader, (api_key, api_version, correlation_id, client_id, position))


def _parse_without_client_id(frame: memoryview) -> RequestHeader:
    if len(frame) >= _FIXED_WITHOUT_CLIENT_ID_BYTES:
        api_key, api_version, correlation_id = Struct(">hhi").unpack_from(frame)
        if api_key == ApiKey.CONTROLLED_SHUTDOWN and api_version == 0:
            return RequestHeader(api_key, api_version, correlation_id, "", _FIXED_WITHOUT_CLIENT_ID_BYTES)
    raise InvalidRequest(f"a frame of {len(frame)} bytes is too short for a request header; it was cut off")


def request_header(*, api_key: int, api_version: int, correlation_id: int, client_id: str | None) -> bytes:
    """The bytes of a request header.

    Raises InvalidRequest when `client_id` has more than 32767 bytes.
    """
    name = b"" if client_id is None else client_id.encode()
    if len(name) > 0x7FFF:
        raise InvalidRequest(f"the client id has {len(name)} bytes, the protocol allows 32767; shorten it")
    length = -1 if client_id is None else len(name)
    tags = REQUEST_TAGS.get() if is_flexible(api_key, api_version) else b""
    return _FIXED.pack(api_key, api_version, correlation_id, length) + name + tags


def tag_request(frame: memoryview, header: RequestHeader) -> memoryview:
    """A request that another one made, without its size, with the tagged fields of this context in its header.

    The same frame where the context has none, or the header has no room for any.
    """
    tags = REQUEST_TAGS.get()
    if tags is _NO_TAGS or not is_flexible(header.api_key, header.api_version):
        return frame
    (client_id_bytes,) = Struct(">h").unpack_from(frame, _FIXED_BYTES - 2)
    position = _FIXED_BYTES + max(0, client_id_bytes)
    return memoryview(b"".join((frame[:position], tags, frame[header.body_position :])))


def response_header_is_flexible(api_key: int, api_version: int) -> bool:
    """Whether the answer's header ends with tagged fields."""
    return api_key != ApiKey.API_VERSIONS and api_version >= FIRST_FLEXIBLE_VERSION[api_key]


def parse_response_header(frame: memoryview, *, api_key: int, api_version: int) -> tuple[int, int]:
    """(correlation id, position of the body) of the answer in `frame` to a request of this API and version.

    Raises InvalidRequest when the frame ends within the header.
    """
    if len(frame) < 4:
        raise InvalidRequest(f"an answer of {len(frame)} bytes is too short for its header; it was cut off")
    correlation_id = int.from_bytes(frame[:4], "big", signed=True)
    if response_header_is_flexible(api_key, api_version):
        return correlation_id, skip_tagged_fields(frame, 4)
    return correlation_id, 4
