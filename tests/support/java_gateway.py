"""Java's own Kafka clients driven from Python: a JVM with the client jars, reached through Py4J.

PySpark brings Py4J's Java half; starting a JVM takes a quarter of a second, so two versions of clients cost
little. Left out: running Kafka's command-line tools, which `tests.support.kafka_tools` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tests.support.java import java_command, log4j_config, pyspark_jars

BYTE_ARRAY = "org.apache.kafka.common.serialization.ByteArray"


@contextmanager
def java_gateway(classpath: str, options: Sequence[str] = ()) -> Iterator[Any]:
    """A JVM with `classpath` and options of Java; yields Py4J's view of it. The JVM ends with the block."""
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    jar = next(pyspark_jars().glob("py4j-*.jar"))
    port, token = launch_gateway(
        classpath=classpath,
        jarpath=str(jar),
        java_path=java_command(),
        javaopts=[
            "-Xmx256m",
            "-XX:+UseSerialGC",
            *options,
            f"-Dlog4j2.configurationFile={log4j_config('error')}",
        ],
        die_on_exit=True,
        enable_auth=True,
    )
    parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True)
    gateway = JavaGateway(gateway_parameters=parameters)
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()


def java_producer(jvm: Any, bootstrap: str, **settings: Any) -> Any:
    """A KafkaProducer of bytes; underscores in settings stand for dots."""
    serializer = f"{BYTE_ARRAY}Serializer"
    own = {"key.serializer": serializer, "value.serializer": serializer}
    return jvm.org.apache.kafka.clients.producer.KafkaProducer(
        java_properties(jvm, bootstrap, {**own, **dotted(settings)})
    )


def java_consumer(jvm: Any, bootstrap: str, **settings: Any) -> Any:
    """A KafkaConsumer of bytes that starts at the beginning; underscores in settings stand for dots."""
    deserializer = f"{BYTE_ARRAY}Deserializer"
    own = {
        "key.deserializer": deserializer,
        "value.deserializer": deserializer,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": "false",
    }
    return jvm.org.apache.kafka.clients.consumer.KafkaConsumer(
        java_properties(jvm, bootstrap, {**own, **dotted(settings)})
    )


def java_admin(jvm: Any, bootstrap: str) -> Any:
    return jvm.org.apache.kafka.clients.admin.Admin.create(java_properties(jvm, bootstrap, {}))


def poll(jvm: Any, consumer: Any, wait_ms: int = 200) -> list[Any]:
    """The records of one poll."""
    return listed(consumer.poll(jvm.java.time.Duration.ofMillis(wait_ms)))


def listed(iterable: Any) -> list[Any]:
    """The items of a Java Iterable, which Py4J does not make Python's unless it is a Collection."""
    iterator = iterable.iterator()
    found = []
    while iterator.hasNext():
        found.append(iterator.next())
    return found


def dotted(settings: Mapping[str, Any]) -> dict[str, str]:
    return {key.replace("_", "."): str(value) for key, value in settings.items()}


def java_properties(jvm: Any, bootstrap: str, settings: Mapping[str, str]) -> Any:
    """java.util.Properties of a client."""
    properties = jvm.java.util.Properties()
    for key, value in {"bootstrap.servers": bootstrap, **settings}.items():
        properties.setProperty(key, value)
    return properties
