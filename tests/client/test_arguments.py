"""Wrong arguments and wrong moments: the error names the argument and what to write instead."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from odradek import Admin, Client, Compression, Consumer, Producer, TopicPartition
from odradek.client.arguments import all_record_bytes, find_compression, record_parts
from odradek.errors import ClientClosed, InvalidRequest
from tests.support.stories import told_by


def offline(work: Callable[[Client], Awaitable[Any]]) -> None:
    """With a client that nothing listens for: what fails here fails before any network."""

    async def main() -> None:
        client = Client("127.0.0.1:1")
        try:
            await work(client)
        finally:
            await client.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("topic", "value", "key", "headers", "said"),
    [
        ("t", "tea", None, (), r"value has to be bytes, not a str; encode it: value\.encode\(\)"),
        ("t", b"", "anna", (), r"key has to be bytes, not a str; encode it: key\.encode\(\)"),
        ("t", 5, None, (), r"value has to be bytes, not an int; .*str\(value\)\.encode\(\)"),
        ("t", b"", True, (), "key has to be bytes, not a bool"),
        ("t", {"a": 1}, None, (), r"value has to be bytes, not a dict; .*json\.dumps\(value\)\.encode\(\)"),
        ("t", b"", None, {"a": b""}, r"headers have to be pairs, not a mapping.*list\(headers\.items\(\)\)"),
        ("t", b"", None, "a", "headers have to be pairs .*, not a str"),
        ("t", b"", None, [("a", b""), "b"], r"headers\[1\] has to be a pair like .*, not 'b'"),
        ("t", b"", None, [(b"a", b"")], r"the name of headers\[0\] has to be a str, not a bytes"),
        (
            "t",
            b"",
            None,
            [("a", "x")],
            r"the value of header 'a' has to be bytes, not a str; .*'x'\.encode\(\)",
        ),
        ("t", b"", None, [("a", 1)], "the value of header 'a' has to be bytes, not an int"),
        (b"t", b"", None, (), "topic has to be a str, not a bytes; write 't'"),
        (None, b"", None, (), "topic has to be a str, not None"),
    ],
)
def test_a_wrong_part_of_a_record_is_named(topic: Any, value: Any, key: Any, headers: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        record_parts(topic, value, key, headers)


def test_other_buffers_are_copied() -> None:
    value = bytearray(b"value")
    wide = memoryview(b"\x01\x00\x02\x00").cast("H")
    parts = record_parts("t", value, wide, [["a", memoryview(b"b")], ("c", None)])
    value[0] = 0
    assert parts == (b"value", b"\x01\x00\x02\x00", (("a", b"b"), ("c", None)))


def test_many_values_are_looked_at_as_one() -> None:
    plain = [b"a", None]
    assert all_record_bytes(plain, "values") is plain
    assert all_record_bytes([b"a", bytearray(b"b")], "values") == [b"a", b"b"]
    with pytest.raises(TypeError, match=r"values\[1\] has to be bytes, not a str"):
        all_record_bytes([b"a", "b"], "values")


@told_by(offline)
async def test_the_producer_refuses_before_anything_is_sent(client: Client) -> None:
    producer = Producer(client)
    producer._started = True
    with pytest.raises(TypeError, match="value has to be bytes, not a str"):
        await producer.send("t", "tea")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="key has to be bytes, not an int"):
        await producer.send("t", b"tea", key=7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="topic has to be a str, not a bytes"):
        await producer.send(b"t", b"tea")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="the value of header 'a' has to be bytes"):
        await producer.send("t", b"tea", headers=[("a", "b")])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("bootstrap", "said"),
    [
        (9092, "bootstrap has to be a str like '127.0.0.1:9092', not 9092"),
        (None, "bootstrap has to be a str like '127.0.0.1:9092', not None"),
        (b"127.0.0.1:9092", "bootstrap has to be a str"),
        (
            ["127.0.0.1:9092", 5],
            "bootstrap has to be a str like '127.0.0.1:9092', not \\['127.0.0.1:9092', 5\\]",
        ),
    ],
)
def test_a_wrong_bootstrap_is_named(bootstrap: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        Client(bootstrap)


@pytest.mark.parametrize("user", [Producer, Consumer, Admin])
def test_an_address_in_place_of_a_client_is_explained(user: Any) -> None:
    name = user.__name__
    with pytest.raises(TypeError, match=rf"{name} takes a Client, not a str; write: .*, {name}\(client\)"):
        user("127.0.0.1:9092")


@told_by(offline)
async def test_calls_before_the_start_and_after_the_end_say_so(client: Client) -> None:
    producer, consumer = Producer(client), Consumer(client, "t")
    with pytest.raises(ClientClosed, match="the producer is not started: write `async with"):
        await producer.send("t", b"")
    with pytest.raises(ClientClosed, match="the consumer is not started: write `async with"):
        await consumer.poll()
    with pytest.raises(ClientClosed, match="the consumer is not started"):
        async for _ in consumer:
            pass
    await producer.close()
    await consumer.close()
    with pytest.raises(ClientClosed, match="the producer is closed"):
        await producer.send("t", b"")
    with pytest.raises(ClientClosed, match="the consumer is closed"):
        await consumer.commit()
    with pytest.raises(ClientClosed, match="closed before; create another"):
        await consumer.start()


@told_by(offline)
async def test_numbers_of_a_record_are_looked_at(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = Producer(client)
    producer._started = True
    monkeypatch.setattr(client, "_cluster", SimpleNamespace(topics={"t": ()}))
    with pytest.raises(TypeError, match="partition has to be an int, not a str"):
        await producer.send("t", b"", partition="0")  # type: ignore[arg-type]
    monkeypatch.setattr(producer, "_choose", lambda *_: TopicPartition("t", 0))
    with pytest.raises(TypeError, match="timestamp_ms has to be an int, not a float"):
        await producer.send("t", b"", timestamp_ms=1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="timestamp_ms is -1; it has to be milliseconds since 1970"):
        await producer.send("t", b"", timestamp_ms=-1)
    with pytest.raises(ClientClosed, match="started or closed before; create another"):
        await producer.start()
    producer._started = False


@told_by(offline)
async def test_a_consumer_with_nothing_to_read_says_what_to_do(client: Client) -> None:
    async with Consumer(client) as consumer:
        with pytest.raises(InvalidRequest, match="there is nothing to read: name topics"):
            await consumer.poll()
        with pytest.raises(InvalidRequest, match="partition t-0 is not assigned"):
            consumer.position(TopicPartition("t", 0))
        with pytest.raises(InvalidRequest, match="partition t-0 is not assigned"):
            await consumer.seek(TopicPartition("t", 0), 5)
        with pytest.raises(InvalidRequest, match="only a member of a group commits"):
            await consumer.commit()
        with pytest.raises(InvalidRequest, match="'first'; it can be 0 or more, 'earliest' or 'latest'"):
            await consumer.assign({TopicPartition("t", 0): "first"})


def test_settings_that_cannot_be_are_refused() -> None:
    async def work(client: Client) -> None:
        with pytest.raises(
            InvalidRequest, match="auto_offset_reset is 'none'; it can be earliest, latest or error"
        ):
            Consumer(client, "t", auto_offset_reset="none")
        with pytest.raises(InvalidRequest, match="group 'g' needs topics"):
            Consumer(client, group_id="g")
        with pytest.raises(TypeError, match="topic has to be a str, not a list"):
            Consumer(client, ["t"])  # type: ignore[arg-type]
        with pytest.raises(
            InvalidRequest, match="compression is 'zip'; it can be none, gzip, snappy, lz4, zstd"
        ):
            Producer(client, compression="zip")
        async with Consumer(client, "t", group_id="g") as consumer:
            with pytest.raises(InvalidRequest, match="the group assigns the partitions"):
                await consumer.assign({TopicPartition("t", 0): 0})

    offline(work)
    assert find_compression("lz4") is Compression.LZ4


# As a program without a type checker has them.
UNTYPED_ADMIN: Any = Admin
UNTYPED_CLIENT: Any = Client
UNTYPED_CONSUMER: Any = Consumer
UNTYPED_PRODUCER: Any = Producer


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda client: UNTYPED_ADMIN(client).topics.create("t", partitions="3"),
            "partitions has to be an int, not a str",
        ),
        (lambda client: UNTYPED_ADMIN(client).topics.delete(5), "name has to be a str, not an int"),
        (
            lambda client: UNTYPED_ADMIN(client).topics.delete_many("orders"),
            r"names has to be a sequence of str, not a str; write \['orders'\]",
        ),
        (
            lambda client: UNTYPED_ADMIN(client).topics.create("t", configs=[("a", "b")]),
            "configs has to be a mapping of str to str or float or None, not a list",
        ),
        (
            lambda client: UNTYPED_ADMIN(client).logs.list_offsets({"t": -1}),
            r"a key of timestamps_ms has to be a TopicPartition, not a str; write TopicPartition\('orders', 0\)",
        ),
        (
            lambda client: UNTYPED_ADMIN(client).logs.delete_records({TopicPartition("t", 0): "5"}),
            r"before\[TopicPartition\(topic='t', partition=0\)\] has to be an int, not a str",
        ),
        (lambda client: UNTYPED_ADMIN(client).brokers.drain("1"), "broker_id has to be an int, not a str"),
        (
            lambda client: UNTYPED_ADMIN(client).configs.describe("topic", "t"),
            "resource_type has to be a ResourceType, not a",
        ),
        (
            lambda client: UNTYPED_ADMIN(client).scram.describe("anna"),
            r"users has to be a sequence of str.*\['anna'\]",
        ),
        (
            lambda client: UNTYPED_CONSUMER(client, "t").poll(timeout_ms="5"),
            "timeout_ms has to be an int, not a str",
        ),
        (
            lambda client: UNTYPED_CONSUMER(client, "t").commit({TopicPartition("t", 0): "5"}),
            "has to be an int, not a str",
        ),
        (
            lambda client: UNTYPED_CONSUMER(client).assign([TopicPartition("t", 0)]),
            "offsets has to be a mapping of Topic",
        ),
        (
            lambda client: UNTYPED_CONSUMER(client).seek("t", 0),
            "partition has to be a TopicPartition, not a str; write",
        ),
        (
            lambda client: UNTYPED_PRODUCER(client).send_offsets_to_transaction([5], "g"),
            "offsets has to be a mapping of TopicPartition to int, not a list",
        ),
    ],
)
def test_a_call_names_the_argument_of_a_wrong_type(
    call: Callable[[Client], Awaitable[object]], said: str
) -> None:
    async def work(client: Client) -> None:
        with pytest.raises(TypeError, match=said):
            await call(client)

    offline(work)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda _: UNTYPED_CLIENT("a:1", client_id=5), "client_id has to be a str, not an int"),
        (
            lambda _: UNTYPED_CLIENT("a:1", request_timeout_ms="5"),
            "request_timeout_ms has to be an int, not a str",
        ),
        (lambda client: UNTYPED_PRODUCER(client, linger_ms="5"), "linger_ms has to be a float, not a str"),
        (
            lambda client: UNTYPED_PRODUCER(client, is_idempotent=1),
            "is_idempotent has to be a bool, not an int",
        ),
        (
            lambda client: UNTYPED_PRODUCER(client, buffer_bytes_max=1.5),
            "buffer_bytes_max has to be an int, not a float",
        ),
        (
            lambda client: UNTYPED_PRODUCER(client, on_failure="print"),
            "on_failure has to be a callable, not a str",
        ),
        (lambda client: UNTYPED_PRODUCER(client, audit=["t"]), "audit has to be an Audit, not a list"),
        (lambda client: UNTYPED_PRODUCER(client, acks=None), "acks has to be 0, 1, -1 or 'all', not None"),
        (lambda client: UNTYPED_PRODUCER(client, acks=True), "acks has to be 0, 1, -1 or 'all', not a bool"),
        (lambda client: UNTYPED_CONSUMER(client, "t", group_id=5), "group_id has to be a str, not an int"),
        (
            lambda client: UNTYPED_CONSUMER(client, "t", bounds={}),
            "bounds has to be a FetchBounds, not a dict",
        ),
    ],
)
def test_an_argument_of_a_class_is_named_too(make: Callable[[Client], object], said: str) -> None:
    async def work(client: Client) -> None:
        with pytest.raises(TypeError, match=said):
            make(client)

    offline(work)


@pytest.mark.parametrize(
    ("acks", "meant"),
    [("all", -1), ("ALL", -1), ("-1", -1), (-1, -1), ("0", 0), (0, 0), ("1", 1), (1, 1)],
)
def test_acks_have_the_names_and_numbers_of_kafka(acks: Any, meant: int) -> None:
    async def work(client: Client) -> None:
        assert Producer(client, acks=acks)._sender._settings.acks == meant

    offline(work)


def test_other_acks_are_refused() -> None:
    async def work(client: Client) -> None:
        with pytest.raises(InvalidRequest, match=r"acks is 'most'; it can be 0, 1 or 'all' \(-1\)"):
            Producer(client, acks="most")  # type: ignore[arg-type]
        with pytest.raises(InvalidRequest, match="acks is 2"):
            Producer(client, acks=2)

    offline(work)
