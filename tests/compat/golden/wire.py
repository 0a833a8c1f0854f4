"""Sends requests as bytes over a socket and writes down the answers so that two brokers' can be compared.

An answer becomes plain JSON. What differs from run to run (ids, hosts, ports, times, paths) is replaced by a word
before it is compared. Texts of errors are reduced to whether there is one, since theirs differ from ours.
"""

from __future__ import annotations

import dataclasses
import socket
import struct
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Any
from uuid import UUID

from odradek.wire.protocol import messages
from odradek.wire.protocol.codec import decode_response, encode_request
from odradek.wire.records.batch import BatchView
from odradek.wire.records.record import records as records_of
from tests.support.field_names import check_field_names

ANSWER_SECONDS_MAX = 20
UNASKED_SECONDS_MAX = 2
CLOSED = "the connection was closed"

# Fields whose values say nothing about behaviour.
_ANY = {
    "host": "<host>",
    "port": "<port>",
    "cluster_id": "<cluster>",
    "throttle_time": "<time>",
    "member_id": "<member>",
    "leader": "<member>",
    "client_host": "<host>",
    "log_dir": "<directory>",
    "total_bytes": "<bytes>",
    "usable_bytes": "<bytes>",
    "controller_id": "<broker>",
    "leader_id": "<broker>",
    "node_id": "<broker>",
    "broker_id": "<broker>",
    "producer_id": "<producer>",
    "last_timestamp": "<time>",
    "session_id": "<session>",
    "token_id": "<token>",
    "hmac": "<hmac>",
    "issue_timestamp": "<time>",
    "expiry_timestamp": "<time>",
    "max_timestamp": "<time>",
}
_FOR_PEOPLE = ("error_message", "batch_index_error_message")


class Wire:
    """Connections to one broker, by name, and what was answered on them.

    A name that is an address of loopback, as 127.0.0.2, is also where the connection comes from.
    """

    def __init__(self, bootstrap: str) -> None:
        check_field_names()
        host, _, port = bootstrap.rpartition(":")
        self._address = (host, int(port))
        self._connections: dict[str, socket.socket] = {}
        self._ids: dict[UUID, str] = {}
        self.answers: dict[str, Any] = {}

    def ask(self, label: str, api_key: int, version: int, *, on: str = "main", **fields: Any) -> Any:
        """Send a request, note its answer as `label`, and return the decoded answer (None when closed)."""
        frame = encode_request(api_key, version, 7, "golden", messages.request(api_key, version, **fields))
        return self.ask_bytes(label, frame, api_key, version, on=on)

    def ask_quietly(self, api_key: int, version: int, *, on: str = "main", **fields: Any) -> Any:
        """As `ask`, for a step that only prepares: its answer is not compared."""
        answer = self.try_quietly(api_key, version, on=on, **fields)
        assert answer is not None, f"{api_key} version {version}: closed"
        return answer

    def try_quietly(self, api_key: int, version: int, *, on: str = "main", **fields: Any) -> Any:
        """As `ask_quietly`, and None when the connection is closed."""
        frame = encode_request(api_key, version, 7, "golden", messages.request(api_key, version, **fields))
        body = self._exchange(frame, on=on)
        return None if body is None else decode_response(api_key, version, memoryview(body))[1]

    def ask_bytes(self, label: str, frame: bytes, api_key: int, version: int, *, on: str = "main") -> Any:
        """Send a whole frame; the answer is decoded as that of `api_key` in `version`."""
        assert label not in self.answers, f"two answers are named {label!r}"
        body = self._exchange(frame, on=on)
        if body is None:
            self.answers[label] = CLOSED
            return None
        correlation_id, message = decode_response(api_key, version, memoryview(body))
        assert correlation_id == 7
        self.answers[label] = self.plain(message)
        return message

    def exchange_token(self, token: bytes, *, on: str) -> str | None:
        """A token of SASL without a header, and the answer to it; None when closed."""
        body = self._exchange(struct.pack(">i", len(token)) + token, on=on)
        return None if body is None else body.hex()

    def note_whether_closed(self, label: str, *, on: str) -> None:
        """Wait for the broker to close the connection, or for some of its time to pass."""
        connection = self._connections.pop(on, None)
        if connection is None:
            self.answers[label] = CLOSED
            return
        connection.settimeout(UNASKED_SECONDS_MAX)
        try:
            self.answers[label] = CLOSED if not connection.recv(1) else "more was sent"
        except ConnectionResetError:
            self.answers[label] = CLOSED
        except TimeoutError:
            self.answers[label] = "open"
        connection.close()

    def _exchange(self, frame: bytes, *, on: str) -> bytes | None:
        connection = self._connections.get(on)
        if connection is None:
            source = (on, 0) if on.startswith("127.") else None
            connection = socket.create_connection(self._address, ANSWER_SECONDS_MAX, source)
            self._connections[on] = connection
        connection.sendall(frame)
        try:
            size = self._receive(connection, 4)
            return None if size is None else self._receive(connection, struct.unpack(">i", size)[0])
        finally:
            if self._connections.get(on) is connection and connection.fileno() == -1:
                del self._connections[on]

    def _receive(self, connection: socket.socket, size: int) -> bytes | None:
        received = b""
        while len(received) < size:
            try:
                part = connection.recv(size - len(received))
            except ConnectionResetError:
                part = b""
            if not part:
                connection.close()
                return None
            received += part
        return received

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def plain(self, value: Any, name: str = "") -> Any:
        """`value` as JSON can hold it, with what differs from run to run taken out."""
        if name in _FOR_PEOPLE:
            return None if value is None else "<words>"
        if name in _ANY and value not in (None, "", -1):
            return _ANY[name]
        if dataclasses.is_dataclass(value):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            return {key: self.plain(one, key) for key, one in fields.items()}
        if isinstance(value, UUID):
            return self._ids.setdefault(value, f"<id {len(self._ids) + 1}>") if value.int else "<no id>"
        if isinstance(value, datetime):
            return "<time>"
        if isinstance(value, timedelta):
            return round(value.total_seconds() * 1000)
        if isinstance(value, IntEnum):
            return value.name.lower() if name == "error_code" else int(value)
        if isinstance(value, bytes | bytearray | memoryview):
            return self._plain_bytes(bytes(value), name)
        if isinstance(value, tuple | list):
            return self._in_order([self.plain(one, name) for one in value])
        return value

    @staticmethod
    def _in_order(values: list[Any]) -> list[Any]:
        """Partitions and groups sorted: Kafka answers them in the order of a hash table."""
        for key in ("partition_index", "group_id"):
            if all(isinstance(one, dict) and key in one for one in values):
                return sorted(values, key=lambda one: one[key])
        return values

    def _plain_bytes(self, value: bytes, name: str) -> Any:
        if name != "records":
            return value.hex()
        batches = []
        position = 0
        while position < len(value):
            batch = BatchView(memoryview(value), position)
            batches.append(
                {
                    "base_offset": batch.base_offset,
                    "leader_epoch": batch.leader_epoch,
                    "attributes": batch.attributes,
                    "values": [
                        (record.offset, (record.value or b"").decode()) for record in records_of(batch)
                    ],
                }
            )
            position += batch.size_bytes
        return batches
