"""How long a record takes through a broker, one at a time: with Kafka's own clients, and with librdkafka.

Both send a record of 100 B with acks=all and no linger, and the next when a consumer with its default waiting has it.
Kafka's clients are timed inside their JVM by `EndToEnd.java`. PySpark carries the compiler for it, so that no JDK is
needed. Each measurement has a JVM of its own, and the records that warm it are discarded.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.peers import Served
from tests.support.java import kafka_classpath, pyspark_jars
from tests.support.java_gateway import BYTE_ARRAY, java_gateway, java_properties

RECORD_BYTES = 100
ARRIVAL_SECONDS_MAX = 10
_SOURCE = Path(__file__).with_name("EndToEnd.java")


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds from sending a record to its arrival at a consumer, one record at a time."""

    average_ms: float
    p50_ms: float
    p99_ms: float

    @classmethod
    def of(cls, took_ms: Sequence[float]) -> Latency:
        ordered = sorted(took_ms)
        at_99 = ordered[int(len(ordered) * 0.99)]
        return cls(statistics.fmean(ordered), ordered[len(ordered) // 2], at_99)


def kafkas_clients(peer: Served, topic: str, *, records: int, discarded: int) -> Latency:
    """Kafka 4.1.1's producer and consumer for Java, in one JVM."""
    compiler_jars = [
        str(jar)
        for jar in pyspark_jars().glob("*.jar")
        if jar.name.startswith(("janino", "commons-compiler"))
    ]
    with java_gateway(":".join([kafka_classpath(), *compiler_jars])) as jvm:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.cook(_SOURCE.read_text())
        methods = compiler.getClassLoader().loadClass("EndToEnd").getMethods()
        measure = next(method for method in methods if method.getName() == "measure")
        producing = {f"{side}.serializer": f"{BYTE_ARRAY}Serializer" for side in ("key", "value")}
        consuming = {f"{side}.deserializer": f"{BYTE_ARRAY}Deserializer" for side in ("key", "value")}
        arguments = jvm.java.util.ArrayList()
        arguments.add(java_properties(jvm, peer.bootstrap, {**producing, "acks": "all", "linger.ms": "0"}))
        arguments.add(java_properties(jvm, peer.bootstrap, {**consuming, "enable.auto.commit": "false"}))
        for argument in (topic, records, discarded, RECORD_BYTES):
            arguments.add(argument)
        nanoseconds = measure.invoke(None, arguments.toArray())
        text: str = jvm.java.util.Arrays.toString(nanoseconds)  # one call instead of one for each number
    return Latency.of([int(one) / 1e6 for one in text.strip("[]").split(",")])


def librdkafka(peer: Served, topic: str, *, records: int, discarded: int) -> Latency:
    """confluent-kafka's producer and consumer, in this process."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

    producer = Producer({"bootstrap.servers": peer.bootstrap, "acks": "all", "linger.ms": 0})
    consumer = Consumer(
        {"bootstrap.servers": peer.bootstrap, "group.id": "none", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    took_ms: list[float] = []
    for number in range(records + discarded):
        started = time.perf_counter()
        producer.produce(topic, b"x" * RECORD_BYTES, partition=0)
        message = consumer.poll(ARRIVAL_SECONDS_MAX)
        ended = time.perf_counter()
        assert message is not None, f"record {number} did not arrive in {ARRIVAL_SECONDS_MAX} s"
        assert message.error() is None, message.error()
        assert message.offset() == number, f"offset {message.offset()} arrived instead of {number}"
        producer.poll(0)
        if number >= discarded:
            took_ms.append((ended - started) * 1000)
    producer.flush(ARRIVAL_SECONDS_MAX)
    consumer.close()
    return Latency.of(took_ms)
