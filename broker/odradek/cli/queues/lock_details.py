"""What `odradek queues locks` asks: every broker for the records in flight, and the coordinator for the members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from odradek.cli.shared.output import Document, failure_fields
from odradek.client.admin.http_port import format_default_url
from odradek.client.admin.queue_locks import (
    BrokerLocks,
    RecordLock,
    RecordsInFlight,
    read_locks,
)
from odradek.client.admin.queues import QueueAdmin
from odradek.client.client import Client
from odradek.client.errors import ConnectionFailed
from odradek.client.metadata import ClusterInfo
from odradek.client.results import GroupMember
from odradek.client.secured import HttpSecurity
from odradek.foundation.client_limits import BROKER_ANSWER_SECONDS_MAX
from odradek.foundation.errors import OdradekError


class MissingAnswer(NamedTuple):
    """A broker of which nothing is known, or a port that gave no answer, and why."""

    broker: int | None
    url: str | None
    failure: OdradekError

    def __str__(self) -> str:
        return str(self.failure) if self.broker is None else f"broker {self.broker}: {self.failure}"


@dataclass(frozen=True, slots=True)
class QueueLocks:
    """The locks of one queue, sorted, and the brokers whose locks are not among them."""

    group_id: str
    members: Mapping[str, GroupMember]
    answers: Sequence[BrokerLocks]
    missing: Sequence[MissingAnswer]

    @property
    def locks(self) -> list[RecordLock]:
        """Of all brokers that answered."""
        found = (lock for answer in self.answers for lock in answer.locks)
        return sorted(found, key=lambda one: (one.topic, one.partition, one.first))

    @property
    def partitions(self) -> list[RecordsInFlight]:
        """Of all brokers that answered."""
        found = (one for answer in self.answers for one in answer.partitions)
        return sorted(found, key=lambda one: (one.topic, one.partition))

    @property
    def truncated(self) -> list[int]:
        """The brokers that have more than they show."""
        return [answer.broker_id for answer in self.answers if answer.is_truncated]


async def find_locks(
    client: Client, group_id: str, urls: Sequence[str], security: HttpSecurity
) -> QueueLocks:
    """The locks of one queue. Without `urls` each broker's host is asked. Raises GroupIdNotFound."""
    described = await QueueAdmin(client).describe(group_id)
    cluster = await client.with_retries(lambda: client.refresh(()))
    has_tls = security.tls is not None
    url_of: dict[int, str] = {}
    if not urls:
        for broker in cluster.brokers.values():
            url_of[broker.id] = format_default_url(broker.address.host, has_tls=has_tls)
    found = await read_locks(
        urls or url_of.values(),
        group_id,
        security,
        seconds_max=min(client.request_timeout_ms / 1000, BROKER_ANSWER_SECONDS_MAX),
    )
    answers: dict[int, BrokerLocks] = {}
    failures: dict[str, OdradekError] = {}
    for url, answer in found.items():
        if isinstance(answer, OdradekError):
            failures[url] = answer
        elif answer.cluster_id != cluster.cluster_id:
            failures[url] = ConnectionFailed(f"{url} belongs to a broker of another cluster")
        else:
            answers[answer.broker_id] = answer
    members = {one.member_id: one for one in described.members}
    missing = list_missing(cluster, answers, failures, url_of)
    return QueueLocks(group_id, members, list(answers.values()), missing)


def list_missing(
    cluster: ClusterInfo,
    answers: Mapping[int, BrokerLocks],
    failures: Mapping[str, OdradekError],
    url_of: Mapping[int, str],
) -> list[MissingAnswer]:
    """What is not among `answers`. `url_of` is by broker, where it is known which broker an URL should be."""
    missing = [] if url_of else [MissingAnswer(None, url, failure) for url, failure in failures.items()]
    for broker in sorted(cluster.brokers.keys() - answers.keys()):
        url = url_of.get(broker)
        failure = failures.get(url or "") or ConnectionFailed(
            f"no port that was asked is its own{'' if url is None else f', {url} is of another broker'}; "
            "--admin HOST:PORT names it"
        )
        missing.append(MissingAnswer(broker, url, failure))
    return missing


def describe_locks(found: QueueLocks) -> Document:
    """The document for programs."""
    return {
        "queue": found.group_id,
        "locks": [_describe_lock(one, found.members.get(one.member_id)) for one in found.locks],
        "partitions": found.partitions,
        "truncated": bool(found.truncated),
        "missing": [
            {"broker": one.broker, "admin": one.url, **failure_fields(one.failure)} for one in found.missing
        ],
    }


def _describe_lock(lock: RecordLock, member: GroupMember | None) -> Document:
    """A member that has left the group may have records until its connection is gone."""
    return {
        "topic": lock.topic,
        "partition": lock.partition,
        "first": lock.first,
        "last": lock.last,
        "records": lock.last - lock.first + 1,
        "member_id": lock.member_id,
        "client_id": None if member is None else member.client_id,
        "client_host": None if member is None else member.client_host,
        "delivery_count": lock.delivery_count,
        "time_left_ms": lock.time_left_ms,
    }
