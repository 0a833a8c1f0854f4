"""The same requests under the same ACLs, sent to Apache Kafka 4.1.1 and to Odradek: the same rights are missing.

Both serve without a login, so every client is User:ANONYMOUS. ACLs differ by address: 127.0.0.1 administers, and the
requests in question come from 127.0.0.2. All resources have ACLs, so what is not allowed is denied. The test takes
about half a minute, of which Kafka's start needs a third.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from odradek.authorization.acls import (
    CLUSTER_NAME,
    AccessControlEntry,
    AclBinding,
    AclOperation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
)
from odradek.protocol import messages
from odradek.protocol.api import ApiKey
from odradek.protocol.codec import decode_response, encode_request
from tests.handlers import denied_groups, denied_topics
from tests.support.broker_process import Broker
from tests.support.guarded_broker import READ, TOPIC, WRITE, Row, acl, codes, committed
from tests.support.java import JavaUnavailableError
from tests.support.kafka_peer import KafkaPeer
from tests.support.peers import skip_or_fail
from tests.support.whole_broker import batch

ADMINISTRATOR, CLIENT = "127.0.0.1", "127.0.0.2"
DENIALS = {29, 30, 31, 53, 65}
ANY = 1
ANSWER_SECONDS_MAX = 30
SETTINGS = {
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
ROWS = [*RECORDS, *denied_topics.ROWS, *denied_groups.ROWS]


class Side:
    """Connections to one broker: the administrator's and the client's."""

    def __init__(self, bootstrap: str) -> None:
        messages.check_field_names()
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
        size = self._receive(source, 4)
        body = None if size is None else self._receive(source, int.from_bytes(size, "big"))
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
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while self.acls_of_client() != wanted:
            assert time.monotonic() < deadline, self.acls_of_client()
            time.sleep(0.01)
        while len(self.acls({**of_client(), "host_filter": None})) < len(first_acls()) + len(wanted):
            assert time.monotonic() < deadline, "the first ACLs are not there"
            time.sleep(0.01)

    def acls_of_client(self) -> set[tuple[ResourcePattern, AccessControlEntry]]:
        return self.acls(of_client())

    def acls(self, wanted: dict[str, Any]) -> set[tuple[ResourcePattern, AccessControlEntry]]:
        answer = self.ask(ADMINISTRATOR, ApiKey.DESCRIBE_ACLS, 3, **wanted)
        assert codes(answer) == []
        return {
            (
                ResourcePattern(
                    ResourceType(one.resource_type), one.resource_name, PatternType(one.pattern_type)
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
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        for kind, key in ((0, "g"), (1, "t")):
            while codes(self.ask(ADMINISTRATOR, ApiKey.FIND_COORDINATOR, 3, key_type=kind, key=key)):
                assert time.monotonic() < deadline, "no coordinator"
                time.sleep(0.05)


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
    cluster = ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
    everything = AccessControlEntry("User:ANONYMOUS", ADMINISTRATOR, AclOperation.ALL, PermissionType.ALLOW)
    foreign = [
        acl(READ if kind is not ResourceType.TRANSACTIONAL_ID else WRITE, kind, "*", principal="User:other")
        for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
    ]
    own = [
        ResourcePattern(ResourceType.GROUP, "g", PatternType.LITERAL),
        ResourcePattern(ResourceType.TOPIC, "seen", PatternType.LITERAL),
    ]
    return [*(AclBinding(pattern, everything) for pattern in (cluster, *own)), *foreign]


def acl_sets(rights: Sequence[AclBinding]) -> Iterator[list[AclBinding]]:
    """Nothing, one right more at a time, all of them, and all with a denial of the last."""
    for count in range(len(rights) + 1):
        yield list(rights[:count])
    last = rights[-1]
    yield [*rights, AclBinding(last.pattern, last.entry._replace(permission=PermissionType.DENY))]
    # Another right on the same resource is not enough, or implies what is asked for.
    yield [AclBinding(last.pattern, last.entry._replace(operation=AclOperation.ALTER))]


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    folder: Path = tmp_path_factory.mktemp("authorizer")
    ours = Broker(folder / "odradek", settings=SETTINGS)
    kafka = KafkaPeer(folder / "kafka", settings=SETTINGS, heap="512m")
    try:
        try:
            kafka.start()
        except JavaUnavailableError as error:
            skip_or_fail(str(error))
        ours.start()
        both = Side(kafka.bootstrap), Side(ours.bootstrap)
        for side in both:
            side.have_topics()
            side.have_coordinators()
            side.create(first_acls())
            side.give([])
        yield both
        for side in both:
            side.close()
    finally:
        kafka.stop()
        ours.stop()


def denials(side: Side, row: Row) -> list[int]:
    api, version, fields, _, _ = row
    answer = side.ask(CLIENT, api, version, **fields)
    return ["closed"] if answer is None else sorted(code for code in codes(answer) if code in DENIALS)  # type: ignore[list-item]


def test_the_same_rights_are_missing(sides: tuple[Side, Side]) -> None:
    different: list[str] = []
    compared = denied = 0
    for row in ROWS:
        for acls in acl_sets(row[4]):
            found = []
            for side in sides:
                side.have_topics()
                side.have_group()
                side.give(acls)
                found.append(denials(side, row))
            compared += 1
            denied += bool(found[0])
            if found[0] != found[1]:
                rights = [
                    f"{one.entry.permission.name} {one.entry.operation.name} {one.pattern.type.name} {one.pattern.name}"
                    for one in acls
                ]
                different.append(f"{row[0].name} {row[1]} {rights}: Kafka {found[0]}, Odradek {found[1]}")
    print(f"{compared} requests compared, {denied} of them denied")
    assert not different, "\n".join(different)
    assert compared > 150
    assert 50 < denied < compared - 30
