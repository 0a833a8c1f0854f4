"""The same requests under the same ACLs, sent to Apache Kafka 4.1.1 and to Odradek: the same rights are missing.

APIs that 4.1.1 does not serve are compared with a newer Kafka. The first test takes about half a minute, of which
Kafka's start needs a third. The last one is a share of the table of `make rights`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from odradek.security.authorization.acls import AclBinding, AclOperation, PermissionType
from tests.broker.requests import denied_groups, denied_topics
from tests.compat.authorizer.request_table import (
    OF_DELETION,
    OF_NEWER_KAFKA,
    compare,
    of_missing_topics,
    table_sets,
)
from tests.compat.authorizer.sides import CLIENT, DENIALS, RECORDS, SETTINGS, Side, first_acls
from tests.support.broker_process import Broker
from tests.support.java import KAFKA_NEWEST_VERSION, KAFKA_VERSION, JavaUnavailableError
from tests.support.kafka_peer import KafkaPeer
from tests.support.peers import skip_or_fail
from tests.support.rights import Row, codes

pytestmark = pytest.mark.thorough

ROWS = [
    *RECORDS,
    *denied_topics.ROWS,
    *denied_groups.ROWS,
    *of_missing_topics([*denied_topics.ROWS, *denied_groups.ROWS]),
    *OF_DELETION,
]


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
    yield from start_sides(tmp_path_factory.mktemp("authorizer"), KAFKA_VERSION)


@pytest.fixture(scope="module")
def newest_sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    yield from start_sides(tmp_path_factory.mktemp("authorizer-newest"), KAFKA_NEWEST_VERSION)


def start_sides(folder: Path, version: str) -> Iterator[tuple[Side, Side]]:
    """Apache Kafka of this version and Odradek, with the same topics, groups and first ACLs."""
    ours = Broker(folder / "odradek", settings=SETTINGS)
    kafka = KafkaPeer(folder / "kafka", settings=SETTINGS, heap="512m", version=version)
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


def count_compared(sides: tuple[Side, Side], rows: Sequence[Row]) -> tuple[int, int]:
    """How many requests were compared, and how many of them were denied. Each has the same denials of both sides."""
    different: list[str] = []
    compared = denied = 0
    for row in rows:
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
    return compared, denied


def test_the_same_rights_are_missing(sides: tuple[Side, Side]) -> None:
    compared, denied = count_compared(sides, [row for row in ROWS if row[0] not in OF_NEWER_KAFKA])
    assert compared > 150
    assert 50 < denied < compared - 30


def test_the_same_rights_are_missing_to_newer_requests(newest_sides: tuple[Side, Side]) -> None:
    rows = [row for row in ROWS if row[0] in OF_NEWER_KAFKA]
    assert {row[0] for row in rows} == OF_NEWER_KAFKA
    compared, denied = count_compared(newest_sides, rows)
    assert 0 < denied < compared


def test_random_acls_miss_the_same_rights(sides: tuple[Side, Side]) -> None:
    table = compare(*sides, table_sets(seed=1, count=4))
    print(table.text())
    assert not table.different, "\n".join(table.different)
    assert table.cells > 400
    assert table.cells // 5 < table.denied < table.cells * 4 // 5
