"""Users of SCRAM, access control lists and clients' quotas in the metadata log of a Kafka (KRaft).

    11  SCRAM user      name, mechanism int8, salt, stored key, server key (compact bytes), iterations int32
    22                  gone: name, mechanism
    14  quota           entities (type, nullable name), key, value float64, is removed bool
    18  access control  id 16 bytes, type of resource int8, its name, type of pattern int8, principal, host,
                        operation int8, permission int8
    19                  gone: id 16 bytes

Texts are compact strings. Values are kept as they are read: what cannot be used here is found when it is taken over.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from odradek.foundation.errors import InvalidRequest
from odradek.wire.protocol.varint import read_unsigned_varint

KINDS: Final = frozenset((11, 14, 18, 19, 22))
_USER: Final = 11
_QUOTA: Final = 14
_ACL: Final = 18
_ACL_GONE: Final = 19
_USER_GONE: Final = 22
_ID_BYTES: Final = 16
_float64_at = struct.Struct(">d").unpack_from
_int32_at = struct.Struct(">i").unpack_from


class ScramUser(NamedTuple):
    """The keys of one user for one mechanism."""

    name: str
    mechanism: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class ClientQuota(NamedTuple):
    """One quota; `parts` are the type and the name of each part of its entity, without a name for the default."""

    parts: tuple[tuple[str, str | None], ...]
    key: str
    value: float


class AccessControl(NamedTuple):
    """One ACL, with the numbers of the wire."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


class KraftAccess:
    """The users, quotas and ACLs of the records that were replayed up to now."""

    def __init__(self) -> None:
        # By name and mechanism, by entity and key, by id.
        self.users: dict[tuple[str, int], ScramUser] = {}
        self.quotas: dict[tuple[object, str], ClientQuota] = {}
        self.acls: dict[bytes, AccessControl] = {}

    def replay(self, kind: int, view: memoryview, position: int) -> None:
        """Apply a record of one of `KINDS`, whose fields begin at `position`. Raises InvalidRequest, IndexError."""
        try:
            if kind == _USER:
                user = _user_at(view, position)
                self.users[user.name, user.mechanism] = user
            elif kind == _USER_GONE:
                name, position = text_at(view, position)
                self.users.pop((name or "", view[position]), None)
            elif kind == _ACL:
                acl_id = bytes(view[position : position + _ID_BYTES])
                self.acls[acl_id] = _acl_at(view, position + _ID_BYTES)
            elif kind == _ACL_GONE:
                self.acls.pop(bytes(view[position : position + _ID_BYTES]), None)
            elif kind == _QUOTA:
                quota, is_removed = _quota_at(view, position)
                self.quotas.pop((quota.parts, quota.key), None)
                if not is_removed:
                    self.quotas[quota.parts, quota.key] = quota
        except struct.error as error:
            raise InvalidRequest(f"a record of kind {kind} in the metadata log is truncated") from error


def text_at(view: memoryview, position: int) -> tuple[str | None, int]:
    """A compact nullable string and the position after it."""
    found, end = _bytes_at(view, position)
    return (None if found is None else str(found, "utf-8")), end


def _bytes_at(view: memoryview, position: int) -> tuple[memoryview | None, int]:
    length, position = read_unsigned_varint(view, position)
    if length == 0:
        return None, position
    end = position + length - 1
    if end > len(view):
        raise InvalidRequest(f"a text of {length - 1} bytes in the metadata log is truncated")
    return view[position:end], end


def _user_at(view: memoryview, position: int) -> ScramUser:
    name, position = text_at(view, position)
    mechanism = view[position]
    salt, position = _bytes_at(view, position + 1)
    stored_key, position = _bytes_at(view, position)
    server_key, position = _bytes_at(view, position)
    (iterations,) = _int32_at(view, position)
    keys = (bytes(salt or b""), bytes(stored_key or b""), bytes(server_key or b""))
    return ScramUser(name or "", mechanism, *keys, iterations)


def _acl_at(view: memoryview, position: int) -> AccessControl:
    resource_type = view[position]
    resource_name, position = text_at(view, position + 1)
    pattern_type = view[position]
    principal, position = text_at(view, position + 1)
    host, position = text_at(view, position)
    return AccessControl(
        resource_type,
        resource_name or "",
        pattern_type,
        principal or "",
        host or "",
        view[position],
        view[position + 1],
    )


def _quota_at(view: memoryview, position: int) -> tuple[ClientQuota, bool]:
    """The quota, and whether it is removed."""
    count, position = read_unsigned_varint(view, position)
    parts: list[tuple[str, str | None]] = []
    for _ in range(count - 1):
        kind, position = text_at(view, position)
        name, position = text_at(view, position)
        tags, position = read_unsigned_varint(view, position)
        if tags:
            raise InvalidRequest("a quota in the metadata log has tagged fields, and none are known")
        parts.append((kind or "", name))
    key, position = text_at(view, position)
    (value,) = _float64_at(view, position)
    return ClientQuota(tuple(parts), key or "", value), bool(view[position + 8])
