"""A table of requests beside Apache Kafka 4.1.1: every API and version of it, under ACLs that chance has made.

    python -m tests.compat.authorizer.request_table --cells 20000     what `make rights` does

A cell is a request of one version and one set of ACLs. Each set belongs to an address of its own, so all of them are
made at once. Clients of these addresses ask both brokers. What is compared are the errors of missing rights, and the
operations that answers list.

Where answers differ, the topics and the group are made again, and both brokers get the request again. A right that is
missing is missing again, while members of a group come and go. Left out: versions that lack a field of a row, and those
of JoinGroup that wait for other members.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from odradek.broker.requests.table import HANDLERS
from odradek.security.authorization.acls import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
    ResourcePattern,
)
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.requests import STREAMS
from odradek.wire.protocol.schema import REQUEST, fields_of, message_class
from tests.broker.requests import denied_groups, denied_topics
from tests.compat.authorizer.sides import ADMINISTRATOR, DENIALS, RECORDS, SETTINGS, Side, first_acls
from tests.support.broker_process import Broker
from tests.support.field_names import check_field_names
from tests.support.kafka_peer import KafkaPeer
from tests.support.rights import DELETE, TOPIC, Row, acl, codes

# Answers that list the operations which the client may do (KIP-430).
OPERATIONS: Final[list[Row]] = [
    (
        ApiKey.METADATA,
        10,
        {
            "topics": [{"name": "seen"}, {"name": "hidden"}],
            "allow_auto_topic_creation": False,
            "include_cluster_authorized_operations": True,
            "include_topic_authorized_operations": True,
        },
        set(),
        (),
    ),
    (ApiKey.DESCRIBE_CLUSTER, 0, {"include_cluster_authorized_operations": True}, set(), ()),
    (ApiKey.DESCRIBE_GROUPS, 5, {"groups": ["g"], "include_authorized_operations": True}, set(), ()),
]


def _of_missing(value: Any) -> Any:
    """A part of a request with the missing topic in the place of the one that exists."""
    if isinstance(value, dict):
        return {name: _of_missing(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_of_missing(one) for one in value]
    return "missing" if value == "seen" else value


def of_missing_topics(rows: Sequence[Row]) -> list[Row]:
    """The rows that name a topic, of a topic that does not exist: rights decide what they show of it."""
    found: list[Row] = []
    for api, version, fields, expected, rights in rows:
        missing = _of_missing(fields)
        if missing != fields:
            asked = [
                acl(one.entry.operation, one.pattern.type, _of_missing(one.pattern.name)) for one in rights
            ]
            found.append((api, version, missing, expected, asked))
    return found


# Names that are missing or hidden, an unknown id, and what Kafka checks before rights: a name that is there twice.
OF_DELETION: Final[list[Row]] = [
    (
        ApiKey.DELETE_TOPICS,
        6,
        {
            "topics": [
                {"name": None, "topic_id": uuid.UUID(int=77)},
                {"name": "missing", "topic_id": None},
                {"name": "hidden", "topic_id": None},
                {"name": "new", "topic_id": None},
                {"name": "new", "topic_id": None},
            ],
            "timeout": 1000,
        },
        {29},
        [acl(AclOperation.DESCRIBE, AclResourceType.TOPIC, "missing"), acl(DELETE, TOPIC, "hidden")],
    )
]
_NAMED: Final[list[Row]] = [*denied_topics.ROWS, *denied_groups.ROWS]
ROWS: Final[list[Row]] = [*RECORDS, *_NAMED, *of_missing_topics(_NAMED), *OF_DELETION, *OPERATIONS]
# APIs that Kafka 4.1.1 does not serve.
OF_NEWER_KAFKA: Final = STREAMS
# After them topics or groups may be gone.
CHANGING: Final = frozenset(
    (ApiKey.DELETE_TOPICS, ApiKey.DELETE_GROUPS, ApiKey.OFFSET_DELETE, ApiKey.CREATE_TOPICS)
)
VERSION_MIN: Final = {ApiKey.JOIN_GROUP: 4}
# Without them Kafka answers before it looks at rights.
MANDATORY: Final = {(ApiKey.SYNC_GROUP, 5): {"protocol_type": "consumer", "protocol_name": "range"}}
NAMES: Final = {
    AclResourceType.TOPIC: ("seen", "hidden", "missing", "new", "*", "s", "se", "miss", "n"),
    AclResourceType.GROUP: ("g", "*", "gr"),
    AclResourceType.TRANSACTIONAL_ID: ("t", "*", "tx"),
    AclResourceType.CLUSTER: (CLUSTER_NAME,),
}
ACLS_PER_REQUEST: Final = 500
REPEATS_MAX: Final = 4


@dataclass(slots=True)
class Table:
    """What was compared."""

    cells: int = 0
    denied: int = 0
    repeated: int = 0
    """Cells whose errors differed at first."""
    by_api: dict[str, int] = field(default_factory=dict)
    different: list[str] = field(default_factory=list)

    def text(self) -> str:
        apis = len({name.partition(" ")[0] for name in self.by_api})
        return (
            f"{self.cells} cells of {apis} APIs in {len(self.by_api)} versions: {self.denied} denied by Kafka, "
            f"{self.repeated} repeated, {len(self.different)} different"
        )


def requests(kafka: Side) -> list[tuple[ApiKey, int, dict[str, Any]]]:
    """Each row in each version that both serve and that has all of its fields; APIs of a newer Kafka are left out."""
    answer = kafka.ask(ADMINISTRATOR, ApiKey.API_VERSIONS, 0)
    theirs = {int(one.api_key): (one.min_version, one.max_version) for one in answer.api_keys}
    found = []
    assert {row[0] for row in ROWS} - set(theirs) <= OF_NEWER_KAFKA
    for api, of_row, fields, _, _ in ROWS:
        if api not in theirs:
            continue
        ours = HANDLERS[api]
        first = max(ours.version_min, theirs[api][0], VERSION_MIN.get(api, 0))
        for version in range(first, min(ours.version_max, theirs[api][1]) + 1):
            names = {one.name for one in fields_of(message_class(api, version, REQUEST))}
            if version == of_row or set(fields) <= names:
                found.append((api, version, {**fields, **MANDATORY.get((api, version), {})}))
    return found


def table_sets(*, seed: int, count: int) -> list[tuple[str, list[AclBinding]]]:
    """Addresses, each with its ACLs."""
    rng = random.Random(seed)
    return [(f"127.1.{number >> 8}.{number & 255}", list(_acls(rng))) for number in range(1, count + 1)]


def _acls(rng: random.Random) -> Iterator[AclBinding]:
    for _ in range(rng.choice((2, 5, 9, 14, 20, 28))):
        kind = rng.choice((AclResourceType.TOPIC, AclResourceType.TOPIC, *NAMES))
        name = rng.choice(NAMES[kind])
        is_prefix = kind is not AclResourceType.CLUSTER and name != "*" and rng.random() < 0.4
        operations = (AclOperation.ALL, AclOperation.ALL, *sorted(SUPPORTED_OPERATIONS[kind]))
        yield AclBinding(
            ResourcePattern(kind, name, PatternType.PREFIXED if is_prefix else PatternType.LITERAL),
            AccessControlEntry(
                rng.choice(("User:ANONYMOUS", "User:ANONYMOUS", "User:*", "User:other")),
                "",
                rng.choice(operations),
                rng.choice((PermissionType.ALLOW,) * 4 + (PermissionType.DENY,)),
            ),
        )


def compare(kafka: Side, ours: Side, sets: Sequence[tuple[str, list[AclBinding]]]) -> Table:
    """Ask both everything, under each of the sets."""
    check_field_names(is_on=False)
    table = Table()
    try:
        _give(kafka, sets)
        _give(ours, sets)
        cells = requests(kafka)
        for address, acls in sets:
            _ask_all(kafka, ours, cells, address, acls, table)
            for side in (kafka, ours):
                side.close_client(address)
    finally:
        check_field_names()
    return table


def _give(side: Side, sets: Sequence[tuple[str, list[AclBinding]]]) -> None:
    bound = [
        AclBinding(one.pattern, one.entry._replace(host=address)) for address, acls in sets for one in acls
    ]
    for first in range(0, len(bound), ACLS_PER_REQUEST):
        side.create(bound[first : first + ACLS_PER_REQUEST])
    last_address = sets[-1][0]
    side.until_given(last_address, {one for one in bound if one.entry.host == last_address})


def _ask_all(
    kafka: Side,
    ours: Side,
    cells: Sequence[tuple[ApiKey, int, dict[str, Any]]],
    address: str,
    acls: Sequence[AclBinding],
    table: Table,
) -> None:
    for cell in cells:
        if cell[0] in CHANGING:
            _restore(kafka, ours)
        found = [_missing(side, address, *cell) for side in (kafka, ours)]
        repeats = 0
        while found[0] != found[1] and repeats < REPEATS_MAX:
            time.sleep(repeats**2)
            repeats += 1
            _restore(kafka, ours)
            found = [_missing(side, address, *cell) for side in (kafka, ours)]
        if cell[0] in CHANGING:
            _restore(kafka, ours)
        name = f"{cell[0].name} {cell[1]}"
        table.cells += 1
        table.denied += any(isinstance(one, int) for one in found[0])
        table.repeated += bool(repeats)
        table.by_api[name] = table.by_api.get(name, 0) + 1
        if found[0] != found[1]:
            rights = [
                f"{one.entry.permission.name} {one.entry.principal} {one.entry.operation.name} "
                f"{one.pattern.type.name} {one.pattern.pattern_type.name} {one.pattern.name}"
                for one in acls
            ]
            table.different.append(f"{name} {rights}: Kafka {found[0]}, Odradek {found[1]}")


def _restore(*sides: Side) -> None:
    for side in sides:
        side.have_topics()
        side.have_group()


def _missing(side: Side, address: str, api: ApiKey, version: int, fields: dict[str, Any]) -> list[Any]:
    """The errors of missing rights and the operations that are listed, or that the connection was closed."""
    answer = side.ask(address, api, version, **fields)
    if answer is None:
        return ["closed"]
    return [*sorted(code for code in codes(answer) if code in DENIALS), *sorted(_operations(answer))]


def _operations(message: Any) -> Iterator[str]:
    """Every list of operations in an answer, from the outside in."""
    for name in getattr(message, "__dataclass_fields__", ()):
        value = getattr(message, name)
        if name.endswith("authorized_operations"):
            yield f"{name}={value}"
        elif isinstance(value, tuple):
            for one in value:
                yield from _operations(one)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.compat.authorizer.request_table")
    parser.add_argument("--cells", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="odradek-rights-") as name:
        folder = Path(name)
        peers: list[KafkaPeer | Broker] = [
            KafkaPeer(folder / "kafka", settings=SETTINGS, heap="512m"),
            Broker(folder / "odradek", settings=SETTINGS),
        ]
        try:
            for peer in peers:
                peer.start()
            sides = [Side(peer.bootstrap) for peer in peers]
            for side in sides:
                side.have_topics()
                side.have_coordinators()
                side.create(first_acls())
                side.give([])
            count = -(-arguments.cells // len(requests(sides[0])))
            table = compare(sides[0], sides[1], table_sets(seed=arguments.seed, count=count))
        finally:
            for peer in peers:
                peer.stop()
    print("\n".join([*table.different, table.text()]))
    return 1 if table.different or table.cells < arguments.cells else 0


if __name__ == "__main__":
    sys.exit(main())
