"""The broker for tests: quick to start, with faults on request, and never left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

import odradek.testing
from odradek.client.admin.topics import TopicAdmin
from odradek.client.client import Client
from odradek.client.errors import ConnectionFailed
from odradek.client.producer.producer import Producer
from odradek.foundation.errors import InvalidTopic, PolicyViolation, RecordTooLarge, TopicAlreadyExists
from odradek.testing import BrokerFailedToStartError, TestBroker
from tests.support.stories import in_real_time

pytestmark = pytest.mark.integration

SOURCE = Path(odradek.testing.__file__).parents[2]
WAIT_SECONDS_MAX = 20


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[TestBroker]:
    with TestBroker(tmp_path / "broker") as running:
        yield running


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestBroker]:
    with TestBroker(tmp_path_factory.mktemp("broker")) as running:
        yield running


def topics_of(broker: TestBroker) -> list[str]:
    async def main() -> list[str]:
        async with Client(broker.bootstrap) as client:
            return [topic.name for topic in await TopicAdmin(client).list(include_internal=False)]

    return asyncio.run(main())


def send(broker: TestBroker, topic: str, *, retry_ms: int = 10_000) -> int:
    """Send one record; the offset it got."""

    async def main() -> int:
        async with (
            Client(broker.bootstrap, request_timeout_ms=retry_ms) as client,
            Producer(client, linger_ms=0, delivery_timeout_ms=retry_ms) as producer,
        ):
            return (await (await producer.send(topic, b"v"))).offset

    return asyncio.run(main())


def wait_until_gone(pid: int) -> None:
    """Until the process is gone or a zombie that init has not yet collected."""
    try:
        psutil.Process(pid).wait(WAIT_SECONDS_MAX)
    except psutil.NoSuchProcess:
        return


def test_topics_survive_a_stop_and_a_crash_on_the_same_port(broker: TestBroker) -> None:
    bootstrap = broker.bootstrap
    broker.create_topic("kept", partitions=3, configs={"retention.ms": 1000})
    assert broker.stop() == 0
    assert not broker.is_running
    broker.start()
    assert broker.bootstrap == bootstrap
    assert broker.kill() == -signal.SIGKILL
    broker.restart()
    assert topics_of(broker) == ["kept"]
    broker.delete_topic("kept")
    assert topics_of(broker) == []
    assert "unclean" in broker.logs


def test_what_the_broker_refuses_is_raised_here(broker: TestBroker) -> None:
    broker.create_topic("t")
    with pytest.raises(TopicAlreadyExists):
        broker.create_topic("t")
    with pytest.raises(InvalidTopic):
        broker.create_topic("not/allowed")


@in_real_time
async def test_topics_can_be_made_where_a_loop_runs(broker: TestBroker) -> None:
    broker.create_topic("t")
    assert await asyncio.to_thread(topics_of, broker) == ["t"]


def test_an_api_fails_as_often_as_it_was_told(broker: TestBroker) -> None:
    broker.create_topic("t")
    broker.fail("Produce", error="MESSAGE_TOO_LARGE", times=1)
    with pytest.raises(RecordTooLarge):
        send(broker, "t")
    assert send(broker, "t") == 0


def test_an_error_worth_another_try_is_lived_through(broker: TestBroker) -> None:
    broker.create_topic("t")
    broker.fail("produce", error="NOT_LEADER_OR_FOLLOWER", times=2)
    broker.disconnect("produce", times=1)
    assert send(broker, "t") == 0


def test_faults_last_until_cleared(broker: TestBroker) -> None:
    broker.create_topic("t")
    broker.fail("Produce", error="MESSAGE_TOO_LARGE")
    for _ in range(3):
        with pytest.raises(RecordTooLarge):
            send(broker, "t")
    broker.clear_faults()
    assert send(broker, "t") == 0


def test_answers_are_held_back(broker: TestBroker) -> None:
    broker.create_topic("t")
    broker.delay("Produce", 300, times=1)
    started = time.monotonic()
    assert send(broker, "t") == 0
    assert time.monotonic() - started >= 0.3


def test_a_broker_that_cannot_start_says_why(tmp_path: Path) -> None:
    with (
        pytest.raises(BrokerFailedToStartError, match=r"(?s)ended with 2.*log.segment.bytes"),
        TestBroker(tmp_path, settings={"log.segment.bytes": "many"}),
    ):
        pytest.fail("it started")


def test_data_of_its_own_is_removed_and_data_of_the_test_is_kept(tmp_path: Path) -> None:
    with odradek.testing.broker() as temporary:
        folder = temporary.folder
        assert folder.exists()
    assert not folder.exists()
    with odradek.testing.broker(tmp_path / "mine"):
        pass
    assert (tmp_path / "mine" / "data").exists()


def test_a_broker_that_does_not_run_says_so(broker: TestBroker) -> None:
    broker.stop()
    with pytest.raises(RuntimeError, match="does not run"):
        _ = broker.pid
    with pytest.raises(RuntimeError, match="does not run"):
        broker.clear_faults()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_no_broker_outlives_its_test_process(tmp_path: Path, how: signal.Signals) -> None:
    program = (
        "import sys, odradek.testing as t\n"
        "b = t.TestBroker(sys.argv[1]); b.start(); print(b.pid, flush=True); sys.stdin.read()\n"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    with owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert psutil.pid_exists(pid)
        owner.send_signal(how)
    wait_until_gone(pid)
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_faults_meet_the_test_and_not_the_fixtures_own_calls(broker: TestBroker) -> None:
    broker.disconnect("Metadata", times=1)
    broker.fail("CreateTopics", error="POLICY_VIOLATION", times=1)
    broker.create_topic("t")
    broker.delete_topic("t")

    async def connect() -> None:
        async with Client(broker.bootstrap):
            pass

    with pytest.raises(ConnectionFailed):
        asyncio.run(connect())
    asyncio.run(connect())

    async def create() -> None:
        async with Client(broker.bootstrap) as client:
            await TopicAdmin(client).create("t")

    with pytest.raises(PolicyViolation):
        asyncio.run(create())


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (lambda broker: broker.fail("Prodcue", error="NOT_CONTROLLER"), "did you mean 'Produce'"),
        (lambda broker: broker.delay("list_offset", 5), "did you mean 'ListOffsets'"),
        (lambda broker: broker.disconnect("zzz"), "there is no API 'zzz'; names are Kafka's"),
        (lambda broker: broker.fail("Fetch", error="NOT_LEADER"), "did you mean 'NOT_LEADER_OR_FOLLOWER'"),
        (lambda broker: broker.fail("Fetch", error="NONE"), "there is no error 'NONE'"),
        (lambda broker: broker.fail("Fetch", error="NO_SUCH_ERROR"), "there is no error 'NO_SUCH_ERROR'"),
        (lambda broker: broker.fail("Fetch", error=4711), "there is no error with the number 4711"),
        (lambda broker: broker.fail("Fetch", error=6, times=0), "times is 0; it has to be 1 or more"),
        (lambda broker: broker.fail("Fetch", error=6, after=-1), "after is -1"),
        (lambda broker: broker.delay("Fetch", -5), "delay_ms is -5; it has to be above 0"),
        (lambda broker: broker.delay("Fetch", 0), "needs an error, a delay_ms above 0 or close"),
    ],
)
def test_a_fault_that_would_do_nothing_is_refused_and_a_near_name_given(
    shared_broker: TestBroker, fault: Callable[[TestBroker], None], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        fault(shared_broker)


def test_settings_are_checked_and_may_be_any_values(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"settings: there is no setting 'a\.b'; keys are those of Kafka's"):
        TestBroker(tmp_path, settings={"a.b": 1})
    with pytest.raises(TypeError, match=r"num\.partitions is None; leave the key out"):
        TestBroker(tmp_path, settings={"num.partitions": None})
    with TestBroker(tmp_path, settings={"auto.create.topics.enable": False, "num.partitions": 2}) as broker:
        broker.create_topic("t", configs={"preallocate": True})
        assert topics_of(broker) == ["t"]


@in_real_time
async def test_a_broker_is_entered_by_asynchronous_code_too() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count())
    async with odradek.testing.broker() as running:
        folder = running.folder
        assert running.pid > 0
    counting.cancel()
    assert turns > 10  # the loop continued while the process started and ended
    assert not running.is_running
    assert not folder.exists()


def test_a_temporary_folder_goes_where_the_start_fails() -> None:
    context = odradek.testing.broker(settings={"num.partitions": "none"})
    with pytest.raises(BrokerFailedToStartError), context:
        pass
    assert not context._broker.folder.exists()
