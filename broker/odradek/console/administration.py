"""What administrators look at besides topics and groups: transactions, moves, users, quotas, rights.

Each is a fact of its own. A viewer whose console may not see the rights sees the moves all the same.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from odradek.client.admin.acls import AclAdmin
from odradek.client.admin.quotas import QuotaAdmin, QuotaEntry
from odradek.client.admin.reassignments import OngoingReassignment, ReassignmentAdmin
from odradek.client.admin.scram import ScramAdmin
from odradek.client.admin.transactions import (
    OpenTransaction,
    TransactionAdmin,
    TransactionDescription,
    TransactionListing,
)
from odradek.client.client import Client
from odradek.console.documents import Document, RowsWanted, page_of
from odradek.console.mirrors import MirrorsFact, list_mirrors
from odradek.console.shared_facts import Known, SharedDetails, SharedFact
from odradek.foundation.console_limits import (
    CONSOLE_ADMINISTRATION_SECONDS_MIN,
    CONSOLE_HANGING_PARTITIONS_MAX,
    CONSOLE_TRANSACTIONS_DESCRIBED_MAX,
)
from odradek.foundation.errors import InvalidRequest, OdradekError
from odradek.foundation.ids import TopicPartition
from odradek.foundation.tasks import TaskOwner
from odradek.foundation.words import count
from odradek.security.authorization.acls import AclBinding

# Transactions that are under way. A coordinator keeps the others for the next one of their id.
_UNDER_WAY = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
_PARTITIONS_OF_ROW_MAX = 20
# As `odradek transactions find-hanging`: longer than a transaction may be open by the brokers' default.
_HANGING_MS = 900_000
_NEVER_MS = 2**63


@dataclass(frozen=True, slots=True)
class TransactionRow:
    """A transactional id. One that is under way has its description, or why that is not known."""

    listing: TransactionListing
    description: TransactionDescription | None = None
    error: str | None = None


class AdministrationFacts:
    """The facts of the cluster that `client` is connected to."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._tasks = tasks = TaskOwner("console administration")
        often = CONSOLE_ADMINISTRATION_SECONDS_MIN
        self.transactions = SharedFact(
            "transactions", self._list_transactions, tasks=tasks, seconds_min=often
        )
        self.moves: SharedFact[Mapping[TopicPartition, OngoingReassignment]] = SharedFact(
            "moves", ReassignmentAdmin(client).under_way, tasks=tasks, seconds_min=often
        )
        self.users: SharedFact[Mapping[str, Mapping[str, int]]] = SharedFact(
            "users", ScramAdmin(client).describe, tasks=tasks, seconds_min=often
        )
        self.quotas: SharedFact[Sequence[QuotaEntry]] = SharedFact(
            "quotas", QuotaAdmin(client).describe, tasks=tasks, seconds_min=often
        )
        self.rights: SharedFact[Sequence[AclBinding]] = SharedFact(
            "rights", AclAdmin(client).list, tasks=tasks, seconds_min=often
        )
        self.mirrors: SharedFact[MirrorsFact] = SharedFact(
            "mirrors", lambda: list_mirrors(client), tasks=tasks, seconds_min=often
        )
        self.hanging = SharedDetails("hanging", self._find_hanging, tasks=tasks, seconds_min=often)

    async def close(self) -> None:
        """End the questions under way."""
        await self._tasks.close()

    async def _list_transactions(self) -> Sequence[TransactionRow]:
        """All transactional ids, those under way first, the oldest of them before the others."""
        admin = TransactionAdmin(self._client)
        listed = await admin.list()
        under_way = [one for one in listed if one.state in _UNDER_WAY]
        asked = under_way[:CONSOLE_TRANSACTIONS_DESCRIBED_MAX]
        rows = [*await asyncio.gather(*(_describe(admin, one) for one in asked))]
        rows.sort(key=lambda row: _NEVER_MS if row.description is None else row.description.start_ms)
        rows += [TransactionRow(one) for one in under_way[CONSOLE_TRANSACTIONS_DESCRIBED_MAX:]]
        return [*rows, *(TransactionRow(one) for one in listed if one.state not in _UNDER_WAY)]

    async def _find_hanging(self, topic: str) -> Sequence[OpenTransaction]:
        """Transactions that are open in a partition of the topic although their coordinator has none.

        Raises InvalidRequest for a topic of too many partitions.
        """
        keys = (await self._client.topics([topic])).partitions(topic)
        if len(keys) > CONSOLE_HANGING_PARTITIONS_MAX:
            raise InvalidRequest(
                f"{topic} has {count(len(keys), 'partition')}; `odradek transactions find-hanging {topic}` looks at "
                "all of them"
            )
        now_ms = time.time_ns() // 1_000_000
        return await TransactionAdmin(self._client).hanging(keys, now_ms=now_ms, open_longer_ms=_HANGING_MS)


async def _describe(admin: TransactionAdmin, listing: TransactionListing) -> TransactionRow:
    try:
        return TransactionRow(listing, await admin.describe(listing.transactional_id))
    except OdradekError as failure:
        return TransactionRow(listing, error=str(failure))


# --- documents -------------------------------------------------------------------------------------------------------


def transactions_document(known: Known[Sequence[TransactionRow]], wanted: RowsWanted) -> Document:
    """Transactional ids, with what those under way have written to."""
    rows = [row for row in known.value if wanted.text in row.listing.transactional_id]
    return {"asked_ms": known.asked_ms, **page_of(rows, wanted, _transaction_row)}


def _transaction_row(row: TransactionRow) -> Document:
    about = row.description
    partitions = () if about is None else about.partitions
    return {
        "transactional_id": row.listing.transactional_id,
        "state": row.listing.state,
        "producer_id": row.listing.producer_id,
        "coordinator": row.listing.coordinator,
        "started_ms": None if about is None or about.start_ms < 0 else about.start_ms,
        "timeout_ms": None if about is None else about.timeout_ms,
        "partitions": [str(key) for key in partitions[:_PARTITIONS_OF_ROW_MAX]],
        "partitions_total": len(partitions),
        "error": row.error,
    }


def hanging_document(topic: str, known: Known[Sequence[OpenTransaction]]) -> Document:
    """Transactions that hang in a topic, each with the command that aborts it."""
    return {
        "asked_ms": known.asked_ms,
        "topic": topic,
        "rows": [
            {
                "partition": one.partition.partition,
                "producer_id": one.producer.producer_id,
                "start_offset": one.producer.transaction_start_offset,
                "last_ms": one.producer.last_timestamp_ms,
                "command": "odradek transactions abort "
                f"{one.partition.topic}:{one.partition.partition} "
                f"--start-offset {one.producer.transaction_start_offset}",
            }
            for one in known.value
        ],
    }


def moves_document(
    known: Known[Mapping[TopicPartition, OngoingReassignment]], wanted: RowsWanted
) -> Document:
    """Partitions whose replicas move."""
    rows = [(key, move) for key, move in sorted(known.value.items()) if wanted.text in key.topic]
    return {
        "asked_ms": known.asked_ms,
        **page_of(
            rows,
            wanted,
            lambda row: {
                "topic": row[0].topic,
                "partition": row[0].partition,
                "from": row[1].original,
                "to": row[1].target,
                "adding": row[1].adding,
                "removing": row[1].removing,
            },
        ),
    }


def users_document(known: Known[Mapping[str, Mapping[str, int]]], wanted: RowsWanted) -> Document:
    """Users with a password, and the mechanisms that it is kept for. Passwords are not known."""
    rows = [(user, found) for user, found in sorted(known.value.items()) if wanted.text in user]
    return {
        "asked_ms": known.asked_ms,
        **page_of(rows, wanted, lambda row: {"user": row[0], "mechanisms": sorted(row[1])}),
    }


def quotas_document(known: Known[Sequence[QuotaEntry]], wanted: RowsWanted) -> Document:
    """Quotas by user, client id or address."""
    rows = [one for one in known.value if wanted.text in str(one.entity)]
    return {
        "asked_ms": known.asked_ms,
        **page_of(rows, wanted, lambda one: {"entity": str(one.entity), "values": dict(one.values)}),
    }


def rights_document(known: Known[Sequence[AclBinding]], wanted: RowsWanted) -> Document:
    """The access control lists, by resource."""
    rows = [
        one for one in known.value if wanted.text in one.pattern.name or wanted.text in one.entry.principal
    ]
    return {"asked_ms": known.asked_ms, **page_of(rows, wanted, _right_row)}


def _right_row(one: AclBinding) -> Document:
    return {
        "resource": one.pattern.type.name,
        "name": one.pattern.name,
        "pattern": one.pattern.pattern_type.name,
        "principal": one.entry.principal,
        "host": one.entry.host,
        "operation": one.entry.operation.name,
        "permission": one.entry.permission.name,
    }
