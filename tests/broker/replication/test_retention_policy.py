"""A retention policy of the operator's: loaded with a clear error, bounded in what it may do and in time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from odradek.broker.replication import retention_policy
from odradek.broker.replication.retention_policy import RetentionPolicy, load_policy
from odradek.foundation.errors import SettingError
from odradek.storage.config import LogConfig
from odradek.storage.log import Log
from odradek.storage.retention import LogView, SegmentView
from tests.support.disk import SimulatedDisk
from tests.support.logs import StillClock, batch, open_log
from tests.support.polling import eventually
from tests.support.stories import in_real_time
from tests.support.whole_broker import WholeBroker


def keep_the_newest(log: LogView) -> int:
    """All but the last segment that may go."""
    return len(log.segments) - 1


def view(count: int = 3) -> LogView:
    segments = tuple(SegmentView(number, number + 1, 100, number) for number in range(5, 5 + count))
    return LogView("t", 0, segments, 1_000, -1, -1, 0)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("nowhere_at_all:keep", "No module named"),
        (__name__, "it is no function"),
        (f"{__name__}:missing", "no attribute 'missing'"),
        (f"{__name__}:__name__", "it is no function"),
        ("operator:add", "missing a required"),
    ],
)
def test_a_policy_that_cannot_be_is_an_error_at_the_start(path: str, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        load_policy(path)


def test_a_policy_is_named_by_its_path() -> None:
    assert load_policy(None) is None
    assert load_policy(f"{__name__}:keep_the_newest") is keep_the_newest


@in_real_time
async def test_a_policy_chooses_among_the_segments_that_may_go() -> None:
    asked: list[LogView] = []

    def two(log: LogView) -> int:
        asked.append(log)
        assert threading.current_thread().name == "retention policy"
        return 2

    assert await RetentionPolicy(two).choose(view()) == 7
    assert asked == [view()]
    assert await RetentionPolicy(lambda log: 0).choose(view()) == 5


@pytest.mark.parametrize(
    "answer", [4, -1, None, 1.0, True, "2", ZeroDivisionError("a fault"), SystemExit(1)], ids=repr
)
@in_real_time
async def test_a_wrong_answer_deletes_nothing(answer: object, caplog: pytest.LogCaptureFixture) -> None:
    def wrong(log: LogView) -> int:
        if isinstance(answer, BaseException):
            raise answer
        return answer  # type: ignore[return-value]

    assert await RetentionPolicy(wrong).choose(view()) == 5
    assert any("nothing is deleted" in record.message for record in caplog.records)
    assert caplog.records[-1].levelno == logging.ERROR


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    gate = threading.Event()
    yield gate
    gate.set()


@in_real_time
async def test_one_that_hangs_is_left_alone_until_it_has_answered(
    monkeypatch: pytest.MonkeyPatch, gate: threading.Event
) -> None:
    monkeypatch.setattr(retention_policy, "RETENTION_POLICY_SECONDS_MAX", 0.05)
    calls: list[int] = []

    def hang(log: LogView) -> int:
        calls.append(1)
        gate.wait()
        return 1

    policy = RetentionPolicy(hang)
    assert [await policy.choose(view()) for _ in range(3)] == [5, 5, 5]
    assert len(calls) == 1
    gate.set()
    monkeypatch.setattr(retention_policy, "RETENTION_POLICY_SECONDS_MAX", 30)

    async def choose() -> int:
        return await policy.choose(view())

    assert await eventually("it is asked again", choose, lambda found: found != 5) == 6


def filled(clock: StillClock, **settings: int | bool) -> Log:
    """Six segments of a record each."""
    log = open_log(SimulatedDisk(), clock=clock, config=LogConfig(**settings))  # type: ignore[arg-type]
    for number in range(6):
        log.append(batch(b"x" * 100), leader_epoch=0)
        if number < 5:
            log.roll()
    return log


def test_a_log_deletes_what_was_chosen_and_no_more_than_it_may() -> None:
    clock = StillClock()
    log = filled(clock, retention_ms=1)
    clock.advance(10**9)
    seen = log.view_retention(3)
    assert seen is not None
    assert [(one.start_offset, one.end_offset) for one in seen.segments] == [(0, 1), (1, 2), (2, 3)]
    assert log.delete_old_segments(3, chosen_offset=0) == 0  # however old they are
    assert log.delete_old_segments(3, chosen_offset=2) == 2
    assert log.delete_old_segments(3, chosen_offset=6) == 1  # not above the high watermark
    log.advance_log_start(5)
    assert log.delete_old_segments(6, chosen_offset=0) == 2  # what DeleteRecords gave up
    log.reconfigure(LogConfig(cleanup_delete=False, cleanup_compact=True))
    assert log.view_retention(6) is None
    assert log.delete_old_segments(6, chosen_offset=6) == 0


async def test_a_broker_asks_its_policy_in_each_round(monkeypatch: pytest.MonkeyPatch) -> None:
    async def choose(self: RetentionPolicy, log: LogView) -> int:
        return log.segments[(self._call(log) or 0) - 1].end_offset  # virtual time waits for no thread

    monkeypatch.setattr(RetentionPolicy, "choose", choose)
    broker = await WholeBroker.start(
        {"log.retention.policy": f"{__name__}:keep_the_newest", "log.retention.ms": "1"}
    )
    await broker.create_topic("t", partitions=1)
    partition = broker.broker.partitions.get("t", 0)
    for _ in range(4):
        await broker.produce("t", b"x")
        partition.log.roll()
    await broker.broker.housekeeping.apply_retention()
    assert partition.log.log_start_offset == 3
