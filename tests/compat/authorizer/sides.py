"""Two brokers with an authorizer, and their clients: those of 127.0.0.1 administer, others have what ACLs give them.

Both serve without a login, so every client is User:ANONYMOUS, and ACLs differ by address. All resources have ACLs, so
what is not allowed is denied.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from odradek.security.authorization.acls import (
    CLUSTER_NAME,
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
    ResourcePattern,
)
from odradek.wire.protocol import messages
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.codec import decode_response, encode_request
from tests.support.field_names import check_field_names
from tests.support.polling import wait_until
from tests.support.rights import READ, TOPIC, WRITE, Row, acl, codes, committed
from tests.support.whole_broker import batch

ADMINISTRATOR, CLIENT = "127.0.0.1", "127.0.0.2"
DENIALS: Final = {29, 30, 31, 53, 65}
ANY: Final = 1
ANSWER_SECONDS_MAX: Final = 30
SETTINGS: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # The first ACLs are made before there are any; from then on everything has some.
    "allow.everyone.if.no.acl.found": "true",
}
RECORDS: list[Row] = [
    (
        ApiKey.PRODUCE,
        9,
        {
            "transactional_id": None,
            "acks": 1,
            "timeout": 1000,
            "topic_data": [
                {"name": name, "partition_data": [{"index": 0, "records": batch([b"v"])}]}
                for name in ("seen", "hidden", "missing")
            ],
        },
        {29},
        [acl(WRITE, TOPIC, "seen"), acl(WRITE, TOPIC, "miss", pattern_type=PatternType.PREFIXED)],
    ),
    (
        ApiKey.FETCH,
        11,
        {
            "replica_id": -1,
            "max_wait": 0,
            "min_bytes": 1,
            "max_bytes": 1000,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [
                {
                    "topic": name,
                    "partitions": [
                        {
                            "partition": 0,
                            "current_leader_epoch": -1,
                            "fetch_offset": 0,
                            "log_start_offset": -1,
                            "partition_max_bytes": 1000,
                        }
                    ],
                }
                for name in ("seen", "hidden", "missing")
            ],
            "forgotten_topics_data": [],
            "rack_id": "",
        },
        {29},
        [acl(READ, TOPIC, "seen"), acl(READ, TOPIC, "*")],
    ),
]


class Side:
    """Connections to one broker: the administrator's and the client's."""

    def __init__(self, bootstrap: str) -> None:
        check_field_names()
        host, _, port = bootstrap.rpartition(":")
        self._address = host, int(port)
        self._sockets: dict[str, socket.socket] = {}

    def ask(self, source: str, api: ApiKey, version: int, /, **fields: Any) -> Any:
        """The decoded answer; None when the connection was closed."""
        connection = self._sockets.get(source)
        if connection is None:
            connection = self._sockets[source] = socket.create_connection(
                self._address, ANSWER_SECONDS_MAX, source_address=(source, 0)
            )
        connection.sendall(encode_request(api, version, 7, "c", messages.request(api, version, **fields)))
        try:
            size = self._receive(source, 4)
            body = None if size is None else self._receive(source, int.from_bytes(size, "big"))
        except TimeoutError as late:
            where = f"{self._address[0]}:{self._address[1]}"
            raise AssertionError(f"{where} does not answer {api.name} {version} {fields}") from late
        return None if body is None else decode_response(api, version, memoryview(body))[1]

    def _receive(self, source: str, count: int) -> bytes | None:
        found = b""
        while len(found) < count:
            part = self._sockets[source].recv(count - len(found))
            if not part:
                self._sockets.pop(source).close()
                return None
            found += part
        return found

    def close_client(self, source: str) -> None:
        """Close the connection of one address."""
        connection = self._sockets.pop(source, None)
        if connection is not None:
            connection.close()

    def close(self) -> None:
        for connection in self._sockets.values():
            connection.close()

    # --- ACLs ----------------------------------------------------------------------------------------------------

    def create(self, acls: Sequence[AclBinding]) -> None:
        answer = self.ask(
            ADMINISTRATOR,
            ApiKey.CREATE_ACLS,
            3,
            creations=[
                {
                    "resource_type": int(pattern.type),
                    "resource_name": pattern.name,
                    "resource_pattern_type": int(pattern.pattern_type),
                    "principal": entry.principal,
                    "host": entry.host,
                    "operation": int(entry.operation),
                    "permission_type": int(entry.permission),
                }
                for pattern, entry in acls
            ],
        )
        assert codes(answer) == []

    def give(self, acls: Sequence[AclBinding]) -> None:
        """Let the client have these ACLs and no others, as this broker sees them."""
        wanted = {(one.pattern, one.entry._replace(principal="User:ANONYMOUS", host=CLIENT)) for one in acls}
        deleted = self.ask(
            ADMINISTRATOR, ApiKey.DELETE_ACLS, 3, filters=[{**of_client(), "pattern_type_filter": ANY}]
        )
        assert codes(deleted) == []
        if wanted:
            self.create([AclBinding(*one) for one in wanted])
        wait_until(
            "the client has these ACLs and no others",
            self.acls_of_client,
            lambda seen: seen == wanted,
            pause_seconds=0.01,
        )
        wait_until(
            "the first ACLs are there too",
            lambda: len(self.acls({**of_client(), "host_filter": None})),
            lambda seen: seen >= len(first_acls()) + len(wanted),
            pause_seconds=0.01,
        )

    def until_given(self, source: str, wanted: set[AclBinding]) -> None:
        """Wait until this broker has these ACLs of an address, and those made before them."""
        wait_until(
            f"the ACLs of {source} are there",
            lambda: self.acls({**of_client(), "host_filter": source}),
            lambda seen: seen == {tuple(one) for one in wanted},
        )

    def acls_of_client(self) -> set[tuple[ResourcePattern, AccessControlEntry]]:
        return self.acls(of_client())

    def acls(self, wanted: dict[str, Any]) -> set[tuple[ResourcePattern, AccessControlEntry]]:
        answer = self.ask(ADMINISTRATOR, ApiKey.DESCRIBE_ACLS, 3, **wanted)
        assert codes(answer) == []
        return {
            (
                ResourcePattern(
                    AclResourceType(one.resource_type), one.resource_name, PatternType(one.pattern_type)
                ),
                AccessControlEntry(
                    entry.principal,
                    entry.host,
                    AclOperation(entry.operation),
                    PermissionType(entry.permission_type),
                ),
            )
            for one in answer.resources
            for entry in one.acls
        }

    def have_topics(self) -> None:
        """`seen` and `hidden` exist; requests of before may have deleted them."""
        self.ask(
            ADMINISTRATOR,
            ApiKey.CREATE_TOPICS,
            7,
            topics=[
                {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
                for name in ("seen", "hidden")
            ],
            timeout=10_000,
            validate_only=False,
        )

    def have_group(self) -> None:
        """The group `g` has an offset: without a group some APIs have its error instead of a right's."""
        self.ask(ADMINISTRATOR, ApiKey.OFFSET_COMMIT, 8, **committed("g", "seen"))

    def have_coordinators(self) -> None:
        """The coordinators of the group and the transactional id that the requests name."""
        for kind, key in ((0, "g"), (1, "t")):
            wait_until(
                "there is a coordinator",
                partial(self.ask, ADMINISTRATOR, ApiKey.FIND_COORDINATOR, 3, key_type=kind, key=key),
                lambda answer: not codes(answer),
            )


def of_client() -> dict[str, Any]:
    return {
        "resource_type_filter": ANY,
        "resource_name_filter": None,
        "pattern_type_filter": ANY,
        "principal_filter": None,
        "host_filter": CLIENT,
        "operation": ANY,
        "permission_type": ANY,
    }


def first_acls() -> list[AclBinding]:
    cluster = ResourcePattern(AclResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
    everything = AccessControlEntry("User:ANONYMOUS", ADMINISTRATOR, AclOperation.ALL, PermissionType.ALLOW)
    foreign = [
        acl(
            READ if kind is not AclResourceType.TRANSACTIONAL_ID else WRITE, kind, "*", principal="User:other"
        )
        for kind in (AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.TRANSACTIONAL_ID)
    ]
    own = [
        ResourcePattern(AclResourceType.GROUP, "g", PatternType.LITERAL),
        ResourcePattern(AclResourceType.TOPIC, "seen", PatternType.LITERAL),
    ]
    return [*(AclBinding(pattern, everything) for pattern in (cluster, *own)), *foreign]
