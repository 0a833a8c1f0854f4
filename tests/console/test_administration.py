"""The page of administrators: what its parts show of a real cluster, and that one which is refused says why."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.client.admin.quotas import QuotaAdmin
from odradek.client.admin.reassignments import OngoingReassignment
from odradek.client.admin.scram import ScramAdmin, ScramPassword
from odradek.client.admin.transactions import OpenTransaction
from odradek.client.producer.producer import Producer
from odradek.client.results import ProducerOnPartition
from odradek.console.administration import hanging_document, moves_document, rights_document
from odradek.console.documents import RowsWanted
from odradek.console.shared_facts import Known
from odradek.foundation.client_entities import ClientEntity
from odradek.foundation.ids import TopicPartition
from odradek.security.authorization.acls import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
    ResourcePattern,
)
from tests.console.viewer import Viewer, with_console

ALL = RowsWanted(first=0, count=50)


@pytest.mark.integration
@with_console
async def test_transactions_under_way_come_first_with_what_they_write_to(viewer: Viewer, unique: str) -> None:
    await viewer.make_topic(unique)
    done, waits = f"{unique}-done", f"{unique}-open"
    async with Producer(viewer.client, transactional_id=done) as producer, producer.transaction():
        await producer.send(unique, b"1")
    async with Producer(viewer.client, transactional_id=waits) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(unique, b"2")
        shown = await viewer.get("transactions", text=unique)
        assert [one["transactional_id"] for one in shown["rows"]] == [waits, done]
        first = shown["rows"][0]
        assert (first["state"], first["partitions"]) == ("Ongoing", [f"{unique}-0"])
        assert first["started_ms"] <= shown["asked_ms"] and first["timeout_ms"] > 0
        assert (await viewer.get("hanging", topic=unique))["rows"] == [], "its coordinator has it"
        await producer.abort_transaction()
    assert (await viewer.get("hanging", topic=f"{unique}-missing", status=404))["error"]


@pytest.mark.integration
@with_console
async def test_quotas_and_users_are_listed(viewer: Viewer, unique: str) -> None:
    await QuotaAdmin(viewer.client).alter(ClientEntity(user=unique), {"producer_byte_rate": 1000.0})
    shown = await viewer.get("quotas", text=unique)
    assert [one["values"] for one in shown["rows"]] == [{"producer_byte_rate": 1000.0}]
    await ScramAdmin(viewer.client).alter([ScramPassword(unique, "SCRAM-SHA-256", "secret-of-it")])
    shown = await viewer.get("users", text=unique)
    assert shown["rows"] == [{"user": unique, "mechanisms": ["SCRAM-SHA-256"]}]


@pytest.mark.integration
@with_console
async def test_a_part_that_is_refused_hides_no_other(viewer: Viewer) -> None:
    refused = await viewer.get("rights", status=(400, 403, 409, 501, 502))
    assert "authorizer" in refused["error"]
    assert (await viewer.get("moves"))["rows"] == []


def test_rows_of_moves_rights_and_transactions_that_hang() -> None:
    place = TopicPartition("orders", 3)
    moves = {place: OngoingReassignment((1, 2, 4), adding=(4,), removing=(1,))}
    (moved,) = _rows(moves_document(Known(moves, 1), ALL))
    assert (moved["from"], moved["to"], moved["adding"]) == ((1, 2), (2, 4), (4,))
    pattern = ResourcePattern(AclResourceType.TOPIC, "ord", PatternType.PREFIXED)
    entry = AccessControlEntry("User:ann", "*", AclOperation.READ, PermissionType.DENY)
    (right,) = _rows(rights_document(Known([AclBinding(pattern, entry)], 1), ALL))
    assert (right["resource"], right["pattern"], right["permission"]) == ("TOPIC", "PREFIXED", "DENY")
    assert _rows(rights_document(Known([AclBinding(pattern, entry)], 1), RowsWanted(0, 50, "bob"))) == []
    producer = ProducerOnPartition(7, 0, 1, 5_000, 4711)
    (hanging,) = _rows(hanging_document("orders", Known([OpenTransaction(place, producer)], 1)))
    assert hanging["command"] == "odradek transactions abort orders:3 --start-offset 4711"


def _rows(document: dict[str, object]) -> Any:
    return document["rows"]
