"""kill -9, again and again, under load: what was acknowledged is there, once, in order."""

from __future__ import annotations

import random
import threading
import time

import pytest

from tests.integration.conftest import MakeBroker
from tests.support.broker_process import Broker
from tests.support.plain_client import ConnectionLostError, PlainClient
from tests.support.polling import wait_until

pytestmark = pytest.mark.integration

KILLS = 20


def _write_until_killed(
    broker: Broker, topic: str, partition: int, acked: dict[int, bytes], next_number: list[int]
) -> None:
    """Batches of a few records until the connection breaks; `acked` gets each record at its offset."""
    try:
        with PlainClient(broker.port) as client:
            while True:
                values = [b"%d-%07d" % (partition, next_number[0] + index) for index in range(5)]
                next_number[0] += len(values)
                code, base_offset = client.produce(topic, values, partition=partition)
                assert code == 0, code
                acked.update({base_offset + index: value for index, value in enumerate(values)})
    except (ConnectionLostError, ConnectionError):
        return


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("flush", [{"flush_messages": 1}, {}], ids=["flushed", "page-cache"])
def test_nothing_acknowledged_is_lost_when_the_process_is_killed(
    make_broker: MakeBroker, flush: dict[str, int]
) -> None:
    """A killed process loses no page cache either: both kinds of record must survive twenty kills."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    broker = make_broker()
    with PlainClient(broker.port) as client:
        client.create_topic("load", 2, segment_bytes=1 << 20, **flush)
    acked: list[dict[int, bytes]] = [{}, {}]
    numbers = [[0], [0]]
    for _ in range(KILLS):
        writers = [
            threading.Thread(
                target=_write_until_killed,
                args=(broker, "load", partition, acked[partition], numbers[partition]),
            )
            for partition in range(2)
        ]
        for writer in writers:
            writer.start()
        time.sleep(chance.uniform(0.05, 0.4))
        broker.kill()
        for writer in writers:
            writer.join()
        broker.start()
    with PlainClient(broker.port) as client:
        for partition in range(2):
            found = client.fetch_all("load", partition=partition)
            assert len(acked[partition]) > KILLS
            wrong = {
                offset: value
                for offset, value in acked[partition].items()
                if offset >= len(found) or found[offset] != value
            }
            assert not wrong, f"{len(wrong)} of {len(acked[partition])} acknowledged records are lost"
            assert len(set(found)) == len(found), "a record is there twice"


def test_a_controlled_stop_is_clean_and_the_next_start_scans_nothing(make_broker: MakeBroker) -> None:
    broker = make_broker()
    with PlainClient(broker.port) as client:
        client.create_topic("kept")
        assert client.produce("kept", [b"x" * 1000] * 1000)[0] == 0
        assert broker.stop() == 0
    broker.start()
    with PlainClient(broker.port) as client:
        assert len(client.fetch_all("kept")) == 1000
    assert "after a clean stop; 0 bytes were scanned" in broker.log()


def test_a_stop_under_load_answers_or_closes_and_ends_in_time(make_broker: MakeBroker) -> None:
    broker = make_broker()
    with PlainClient(broker.port) as client:
        client.create_topic("busy", 2)
    acked: dict[int, bytes] = {}
    writer = threading.Thread(target=_write_until_killed, args=(broker, "busy", 0, acked, [0]))
    writer.start()
    wait_until(
        "500 records are acknowledged", lambda: len(acked), lambda seen: seen >= 500, pause_seconds=0.01
    )
    assert broker.stop(seconds_max=60) == 0
    writer.join()
    broker.start()
    with PlainClient(broker.port) as client:
        found = client.fetch_all("busy")
    assert all(found[offset] == value for offset, value in acked.items())
