"""What transactional clients of chaos report becomes a history in which anomalies are found."""

from __future__ import annotations

from tests.chaos.check_transactions import check_transactions
from tests.chaos.history import CommittedRead, Event, TransactionReported, from_line, to_line
from tests.chaos.transactional_clients import FINAL


def _reported(at: float, transaction: str, what: str, value: str = "") -> TransactionReported:
    partition = 0 if value else -1
    return TransactionReported(
        at=at, transaction=transaction, what=what, topic="t", partition=partition, value=value
    )


def _read(at: float, reader: str, offset: int, value: str) -> CommittedRead:
    return CommittedRead(at=at, reader=reader, topic="t", partition=0, offset=offset, value=value)


def _events() -> list[Event]:
    return [
        _reported(1.0, "a/0", "write", "a/0/0"),
        _reported(1.1, "a/0", "write", "a/0/1"),
        _reported(1.2, "a/0", "commit asked"),
        _read(1.3, "live", 0, "a/0/0"),
        _reported(1.4, "a/0", "committed"),
        _reported(1.5, "a/1", "write", "a/1/0"),
        _reported(1.6, "b/0", "write", "b/0/0"),
        _reported(1.7, "b/0", "commit asked"),
        _read(9.0, FINAL, 0, "a/0/0"),
        _read(9.0, FINAL, 1, "a/0/1"),
    ]


def _names(events: list[Event]) -> list[str]:
    # As they are in the file.
    return [anomaly.name for anomaly in check_transactions([from_line(to_line(event)) for event in events])]


def test_a_clean_history_passes() -> None:
    assert _names(_events()) == []
    assert _names([*_events(), _read(9.0, FINAL, 4, "b/0/0")]) == []


def test_a_transaction_without_a_request_for_its_commit_must_not_be_read() -> None:
    assert _names([*_events(), _read(9.0, FINAL, 4, "a/1/0")]) == ["aborted read"]


def test_records_of_a_commit_must_be_there() -> None:
    assert _names(_events()[:-1]) == ["torn transaction"]


def test_live_readers_are_compared_with_the_last_one() -> None:
    events = _events()
    events[3] = _read(1.3, "live", 1, "a/0/0")
    assert _names(events) == ["inconsistent offset"]
    events[3] = _read(1.1, "live", 0, "a/0/0")
    assert _names(events) == ["early read"]
