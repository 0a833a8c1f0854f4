"""Which member of a share group has which records, asked at the brokers' ports of --admin (GET /queue-locks).

Kafka's protocol has no request for it. A broker knows of the partitions that it leads, so all brokers are asked. One
that does not answer is an error, and delays the others for `seconds_max` at most.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from odradek.client import errors
from odradek.client.admin.http_port import AdminPages, Page, open_pages
from odradek.client.secured import HttpSecurity
from odradek.foundation.client_limits import QUEUE_LOCKS_BYTES_MAX
from odradek.foundation.errors import OdradekError
from odradek.foundation.security_errors import GroupAuthorizationFailed, SaslAuthenticationFailed

_PATH: Final = "/queue-locks"
_WORDS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class RecordLock:
    """Records of one partition that a member has. The lock ends after `time_left_ms`, unless the member renews it."""

    topic: str
    partition: int
    first: int
    last: int
    member_id: str
    delivery_count: int
    time_left_ms: int


@dataclass(frozen=True, slots=True)
class RecordsInFlight:
    """How many records of one partition are in flight: `acquired` by members, and `available` to be delivered again."""

    topic: str
    partition: int
    in_flight: int
    acquired: int
    available: int


@dataclass(frozen=True, slots=True)
class BrokerLocks:
    """The answer of one broker. With `is_truncated` it has more than it shows."""

    cluster_id: str
    broker_id: int
    is_truncated: bool
    partitions: tuple[RecordsInFlight, ...]
    locks: tuple[RecordLock, ...]


async def read_locks(
    urls: Iterable[str], group_id: str, security: HttpSecurity, *, seconds_max: float
) -> dict[str, BrokerLocks | OdradekError]:
    """The answer of each URL, or its error. Raises ConnectionFailed where a login by token has none."""
    asked = list(dict.fromkeys(urls))
    async with open_pages(security, seconds_max=seconds_max) as pages:
        answers = await asyncio.gather(*(_read(pages, url, group_id) for url in asked))
    return dict(zip(asked, answers, strict=True))


async def _read(pages: AdminPages, url: str, group_id: str) -> BrokerLocks | OdradekError:
    try:
        page = await pages.get(url, _PATH, params={"group": group_id}, bytes_max=QUEUE_LOCKS_BYTES_MAX)
    except OdradekError as failure:
        return failure
    if page.is_shortened:
        return errors.ConnectionFailed(f"{url}: its answer is larger than {QUEUE_LOCKS_BYTES_MAX} bytes")
    if page.status != HTTPStatus.OK:
        return _describe_refusal(url, page)
    try:
        return _parse_answer(json.loads(page.body))
    except (ValueError, TypeError, KeyError, RecursionError):
        return errors.ConnectionFailed(f"{url} answers as no broker of Odradek does")


def _describe_refusal(url: str, page: Page) -> OdradekError:
    words = " ".join(page.body[:_WORDS_MAX].decode(errors="replace").split())
    match page.status:
        case HTTPStatus.UNAUTHORIZED:
            hint = "" if url.startswith("https:") else "; this command logs in by https alone"
            return SaslAuthenticationFailed(f"{url} refuses the login: {words}{hint}")
        case HTTPStatus.FORBIDDEN:
            return GroupAuthorizationFailed(f"{url} refuses: {words}")
        case HTTPStatus.NOT_FOUND:
            return errors.UnsupportedByBroker(
                f"{url} shows no locks: its broker is older, or it is no broker"
            )
    return errors.ConnectionFailed(f"{url} answers {page.status}: {words}")


def _parse_answer(body: object) -> BrokerLocks:
    """Raises TypeError or KeyError for what no broker answers."""
    if not isinstance(body, dict):
        raise TypeError
    return BrokerLocks(
        str(body["cluster_id"]),
        _read_number(body, "broker_id"),
        body["truncated"] is True,
        tuple(
            RecordsInFlight(
                str(row["topic"]),
                _read_number(row, "partition"),
                _read_number(row, "in_flight"),
                _read_number(row, "acquired"),
                _read_number(row, "available"),
            )
            for row in _read_rows(body, "partitions")
        ),
        tuple(
            RecordLock(
                str(row["topic"]),
                _read_number(row, "partition"),
                _read_number(row, "first"),
                _read_number(row, "last"),
                str(row["member_id"]),
                _read_number(row, "delivery_count"),
                _read_number(row, "time_left_ms"),
            )
            for row in _read_rows(body, "locks")
        ),
    )


def _read_rows(body: Mapping[str, object], key: str) -> list[dict[str, object]]:
    rows = body[key]
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise TypeError
    return rows


def _read_number(row: Mapping[str, object], key: str) -> int:
    value = row[key]
    if not isinstance(value, int):
        raise TypeError
    return value
