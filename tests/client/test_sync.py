"""The synchronous form against a running broker: records, groups, transactions, threads, errors and Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

import odradek
from odradek import EARLIEST, TopicPartition, errors
from odradek.sync import Admin, Client, Consumer, Producer
from tests.support.polling import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture
def client(bootstrap: str) -> Iterator[Client]:
    with Client(bootstrap) as made:
        yield made


def test_records_are_written_and_read(client: Client, unique: str) -> None:
    created = Admin(client).topics.create(unique, partitions=1)
    assert created.name == unique
    with Producer(client, acks="all") as producer:
        delivery = producer.send(unique, b"tea", key=b"anna", headers=[("trace", b"1")])
        assert delivery.result(timeout_ms=30_000).offset == 0
        assert delivery.is_done
        assert producer.send_and_wait(unique, b"milk").offset == 1
        producer.send_many(unique, [b"%d" % number for number in range(1_000)])
        producer.flush()
        assert producer.progress == (1_002, 1_002, 1_002)
    with Consumer(client, unique, auto_offset_reset="earliest") as consumer:
        first = next(consumer)
        assert (first.key, first.value, first.headers) == (b"anna", b"tea", (("trace", b"1"),))
        seen = [first.value]
        for record in consumer:
            seen.append(record.value)
            if record.offset == 500:
                break
        partition = TopicPartition(unique, 0)
        assert consumer.position(partition) == consumer.positions[partition] == 501
        seen += [record.value for record in consumer.poll(records_max=1)]
        assert consumer.position(partition) == 502
        consumer.seek(partition, 1_001)
        assert next(consumer).value == b"999"
        consumer.seek(partition, "latest")
        assert consumer.poll(timeout_ms=1) == []
    assert seen == [b"tea", b"milk", *(b"%d" % number for number in range(500))]


def test_a_commit_covers_what_was_handed_out_and_nothing_else(client: Client, unique: str) -> None:
    Admin(client).topics.create(unique, partitions=2)
    with Producer(client) as producer:
        producer.send_many(unique, [b"%d" % number for number in range(20)], partition=0)
        producer.send_many(unique, [b"%d" % number for number in range(20)], partition=1)
        producer.flush()
    with Consumer(client, unique, group_id=unique, auto_offset_reset="earliest") as consumer:
        taken = [next(consumer) for _ in range(25)]
        consumer.commit()
        next(consumer)  # this one is not committed
    counts = {number: sum(record.partition == number for record in taken) for number in (0, 1)}
    offsets = Admin(client).groups.offsets(unique)
    assert {key.partition: found.offset for key, found in offsets.items()} == counts
    with Consumer(client, unique, group_id=unique, auto_offset_reset="earliest") as consumer:
        rest = [next(consumer) for _ in range(15)]
    assert len({(record.partition, record.offset) for record in [*taken, *rest]}) == 40


def test_a_read_that_is_interrupted_loses_no_record(
    client: Client, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C comes when the loop has given records, and the program has not got them."""
    Admin(client).topics.create(unique, partitions=1)
    with Producer(client) as producer:
        producer.send_many(unique, [b"%d" % number for number in range(10)])
    with Consumer(client, unique, group_id=unique, auto_offset_reset="earliest") as consumer:
        call = consumer._call

        def interrupt(work: Any) -> None:
            assert call(work).has_left
            raise KeyboardInterrupt

        for read in (consumer.poll, lambda: next(consumer)):
            monkeypatch.setattr(consumer, "_call", interrupt)
            with pytest.raises(KeyboardInterrupt):
                read()
            monkeypatch.undo()
            assert consumer.position(TopicPartition(unique, 0)) == 0
        consumer.commit()
        assert [next(consumer).value for _ in range(10)] == [b"%d" % number for number in range(10)]
    assert Admin(client).groups.offsets(unique)[TopicPartition(unique, 0)].offset == 0


def test_two_members_share_a_group_and_lose_no_record(bootstrap: str, client: Client, unique: str) -> None:
    """The second one joins while the first has records of both partitions that it has not handed out."""
    Admin(client).topics.create(unique, partitions=2)
    with Producer(client) as producer:
        for number in (0, 1):
            producer.send_many(unique, [b"%d" % count for count in range(300)], partition=number)
        producer.flush()
    options = {"group_id": unique, "auto_offset_reset": "earliest", "heartbeat_interval_ms": 20}
    seen: list[tuple[int, int]] = []
    with Consumer(client, unique, **options) as first, Client(bootstrap) as other:  # type: ignore[arg-type]
        seen.append(place_of(next(first)))
        with Consumer(other, unique, **options) as second:  # type: ignore[arg-type]
            joining = threading.Thread(target=second.poll, kwargs={"records_max": 1})
            joining.start()
            wait_until("the first hears of the second", lambda: first._inner.is_interrupted)
            while joining.is_alive():
                seen += [place_of(record) for record in first.poll(records_max=1, timeout_ms=20)]
            assert len(first.assignment) == len(second.assignment) == 1
            second.seek_to_committed()
            while len(set(seen)) < 600:
                for member in (first, second):
                    seen += [place_of(record) for record in member.poll(timeout_ms=20)]
    assert len(seen) == len(set(seen)) == 600


def place_of(record: odradek.ConsumerRecord) -> tuple[int, int]:
    return record.partition, record.offset


def test_transactions_commit_and_abort(client: Client, unique: str) -> None:
    Admin(client).topics.create(unique, partitions=1)
    with Producer(client, transactional_id=unique) as producer:
        with producer.transaction():
            producer.send(unique, b"kept")
            has_open = producer.has_open_transaction
        with pytest.raises(ZeroDivisionError), producer.transaction():
            producer.send(unique, b"aborted")
            _ = 1 / 0
        assert has_open and not producer.has_open_transaction
        with producer.transaction():
            producer.send(unique, b"last")
        with pytest.raises(errors.NoTransaction):
            producer.send(unique, b"outside")
    with Consumer(client, unique, auto_offset_reset="earliest", is_read_committed=True) as consumer:
        assert [next(consumer).value, next(consumer).value] == [b"kept", b"last"]


def test_an_audit_counts_what_a_synchronous_producer_writes(client: Client, unique: str) -> None:
    Admin(client).topics.create(unique, partitions=1)
    audit = odradek.Audit([unique], audit_topic=f"{unique}-audit")
    with Producer(client, audit=audit) as producer:
        producer.send_many(unique, [b"tea", b"milk"])
    with Consumer(client, audit.audit_topic, auto_offset_reset="earliest") as consumer:
        reports: list[bytes] = []
        while not any(b'"count":2' in report.replace(b" ", b"") for report in reports):
            reports += [record.value or b"" for record in consumer.poll()]


def test_threads_share_a_client_a_producer_and_a_consumer(client: Client, unique: str) -> None:
    Admin(client).topics.create(unique, partitions=3)
    seen: list[bytes | None] = []

    def write(name: int) -> None:
        for number in range(50):
            producer.send(unique, b"%d-%d" % (name, number))

    def read() -> None:
        while len(seen) < 200:
            seen.extend(record.value for record in consumer.poll(records_max=7, timeout_ms=100))

    def iterate() -> None:
        for record in consumer:
            seen.append(record.value)
            if len(seen) >= 200:
                return

    with Producer(client) as producer:
        run_together([lambda name=name: write(name) for name in range(4)])
    with Consumer(client, unique, auto_offset_reset="earliest") as consumer:
        run_together([read, read])
        assert sum(consumer.positions.values()) == 200
        assert sorted(seen, key=repr) == sorted(
            [b"%d-%d" % (name, number) for name in range(4) for number in range(50)], key=repr
        )
        seen.clear()
        consumer.assign({TopicPartition(unique, number): "earliest" for number in range(3)})
        stuck = threading.Thread(target=iterate)
        stuck.start()
        wait_until("the other thread has read all", lambda: len(seen) >= 200)
        stuck.join()
        assert len(set(seen)) == 200


def run_together(works: list[object]) -> None:
    threads = [threading.Thread(target=work) for work in works]  # type: ignore[arg-type]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_an_error_points_to_the_line_that_called(client: Client, unique: str) -> None:
    with pytest.raises(errors.UnknownTopicOrPartition) as caught:
        Admin(client).topics.delete(unique)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert [frame.line for frame in frames if frame.filename == __file__] == [
        "Admin(client).topics.delete(unique)"
    ]


def test_each_caller_of_one_failure_has_a_traceback_of_its_own(client: Client, unique: str) -> None:
    Admin(client).topics.create(unique, partitions=1, configs={"max.message.bytes": "1000"})
    with Producer(client, batch_bytes_max=100_000) as producer:
        delivery = producer.send(unique, os.urandom(5_000))
        with pytest.raises(errors.RecordTooLarge) as first:
            delivery.result()
        with pytest.raises(errors.RecordTooLarge) as second:
            producer.flush()
    assert str(first.value) == str(second.value)
    for caught, line in ((first, "delivery.result()"), (second, "producer.flush()")):
        frames = traceback.extract_tb(caught.value.__traceback__)
        assert [frame.line for frame in frames if frame.filename == __file__] == [line]
        assert [frame.name for frame in frames].count("_run") == 1


def test_a_client_of_the_other_form_is_refused(bootstrap: str, client: Client) -> None:
    with pytest.raises(
        TypeError, match=r"not one of odradek\.sync; write: from odradek\.sync import Producer"
    ):
        odradek.Producer(client)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"not one of asyncio; write: from odradek\.sync import Client"):
        Consumer(odradek.Client(bootstrap), "t")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Producer takes a Client, not a str; write: with Client"):
        Producer("127.0.0.1:9092")  # type: ignore[arg-type]


def test_what_is_used_after_the_end_says_so(bootstrap: str, unique: str) -> None:
    with Client(bootstrap) as client:
        admin, consumer = Admin(client), Consumer(client, unique)
        producer = Producer(client, linger_ms=60_000)
        producer.start()
        producer.send(unique, b"waits")
        assert producer.progress.taken == 1
    client.close()
    with pytest.raises(errors.ClientClosed, match="this client is closed; make another"):
        admin.topics.list()
    with pytest.raises(errors.ClientClosed, match="1 records are not known to be written"):
        producer.close()
    producer.close(is_flushing=False)
    consumer.close()
    assert not producer.is_usable


def test_closing_in_one_thread_ends_the_waits_of_others(bootstrap: str, client: Client, unique: str) -> None:
    Admin(client).topics.create(unique, partitions=1)
    failures: list[BaseException] = []

    def read(consumer: Consumer) -> None:
        try:
            next(consumer)
        except errors.ClientClosed as failure:
            failures.append(failure)

    other = Client(bootstrap)
    consumers = [Consumer(client, unique), Consumer(other, unique)]
    threads = [threading.Thread(target=read, args=(consumer,)) for consumer in consumers]
    for consumer, thread in zip(consumers, threads, strict=True):
        consumer.start()
        thread.start()
    consumers[0].close()
    other.close()
    for thread in threads:
        thread.join()
    assert len(failures) == 2


def test_it_works_where_a_loop_runs(client: Client, unique: str) -> None:
    """As in a cell of Jupyter, whose thread runs a loop while a cell is executed."""

    async def cell() -> list[odradek.ConsumerRecord]:
        Admin(client).topics.create(unique, partitions=1)
        with Producer(client) as producer:
            producer.send(unique, b"tea")
        with Consumer(client, unique, auto_offset_reset="earliest") as consumer:
            return consumer.poll(timeout_ms=30_000)

    assert [record.value for record in asyncio.run(cell())] == [b"tea"]


def test_a_callback_that_calls_the_client_is_refused(client: Client, unique: str) -> None:
    Admin(client).topics.create(unique, partitions=1, configs={"max.message.bytes": "1000"})
    said: list[str] = []

    def on_failure(*_: object) -> None:
        try:
            client.connect()
        except RuntimeError as failure:
            said.append(str(failure))

    with Producer(client, on_failure=on_failure) as producer:
        producer.send(unique, os.urandom(5_000))
        with pytest.raises(errors.RecordTooLarge):
            producer.flush()
    assert said == ["this call would wait for itself: it was made on the client's own thread"]


_INTERRUPTED = """
import sys
from odradek.sync import Client, Consumer
bootstrap, topic = sys.argv[1:]
with Client(bootstrap) as client, Consumer(client, topic, group_id=topic, auto_offset_reset="earliest") as consumer:
    for record in consumer:
        print(record.value, flush=True)
        consumer.commit()
        print("committed", flush=True)
"""


def test_ctrl_c_ends_a_program_and_leaves_its_group(bootstrap: str, client: Client, unique: str) -> None:
    Admin(client).topics.create(unique, partitions=1)
    with Producer(client) as producer:
        producer.send_and_wait(unique, b"tea")
    program = subprocess.Popen(
        [sys.executable, "-W", "default", "-c", _INTERRUPTED, bootstrap, unique],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with program:
        assert program.stdout is not None
        assert program.stdout.readline() == "b'tea'\n"
        # It waits for the next record from then on, or is about to.
        assert program.stdout.readline() == "committed\n"
        program.send_signal(signal.SIGINT)
        _, said = program.communicate()
    assert program.returncode == -signal.SIGINT
    assert re.search(r'File "<string>", line (6|9), in <module>', said)
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert "Warning" not in said and "never retrieved" not in said
    assert Admin(client).groups.describe(unique).members == ()
    assert Admin(client).logs.list_offsets({TopicPartition(unique, 0): EARLIEST})
