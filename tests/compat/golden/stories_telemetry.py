"""Metrics that clients push (KIP-714): the answers of Kafka 4.4.0 with a plug-in that takes them.

`TelemetryReceiver.java` is the plug-in; recording needs a JDK. Requests of one client come once in its interval, which
is five minutes long: each step is a client of its own.
"""

from __future__ import annotations

import shutil
import subprocess
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from odradek.wire.protocol.api import ApiKey
from odradek.wire.records.compression import Compression, compress
from tests.compat.golden.wire import Wire
from tests.support.java import KAFKA_NEWEST_VERSION, kafka_classpath
from tests.support.polling import wait_until
from tests.support.pushed_metrics import gauge, point, pushed, total

# Each broker takes the setting of the other one for one that has no effect.
SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "telemetry": {
        "client.telemetry.enable": "true",
        "metric.reporters": "golden.TelemetryReceiver",
        "telemetry.max.bytes": "10000",
    }
}
_METRICS: Final = pushed(
    gauge("org.apache.kafka.m", point(1.5, topic="t")), total("org.apache.kafka.s", point(3))
)
_FIRST: Final = 0x5EED << 64 | 1 << 63


def compile_receiver(folder: Path) -> Path:
    """The plug-in for Kafka, compiled into a folder."""
    compiler = shutil.which("javac")
    assert compiler is not None, "recording needs javac"
    source = str(Path(__file__).with_name("TelemetryReceiver.java"))
    classes = folder / "classes"
    classpath = kafka_classpath(KAFKA_NEWEST_VERSION)
    subprocess.run([compiler, "--release", "17", "-cp", classpath, "-d", str(classes), source], check=True)
    return classes


class _Clients:
    """Clients of one broker, each with an id of its own."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._made = 0
        self.id = uuid.UUID(int=_FIRST)

    def begin(self) -> None:
        """The next requests are of another client."""
        self._made += 1
        self.id = uuid.UUID(int=_FIRST + self._made)

    def get(self, label: str) -> int:
        """Ask for the subscription; its number."""
        wire = self._wire
        answer = wire.ask_quietly(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, client_instance_id=self.id)
        # The order of several names follows hashes, and the number follows that order.
        names = sorted(answer.requested_metrics)
        wire.answers[label] = {
            "error": int(answer.error_code),
            "is its own": answer.client_instance_id == self.id,
            "metrics": names,
            "number": answer.subscription_id if len(names) < 2 else "<number>",
            "interval": answer.push_interval.total_seconds(),
            "codecs": list(answer.accepted_compression_types),
            "bytes": answer.telemetry_max_bytes,
            "delta": answer.delta_temporality,
        }
        return int(answer.subscription_id)

    def push(self, label: str, number: int, metrics: bytes = _METRICS, **fields: Any) -> None:
        values = {"terminating": False, "compression_type": 0, "client_instance_id": self.id, **fields}
        self._wire.ask(label, ApiKey.PUSH_TELEMETRY, 0, subscription_id=number, metrics=metrics, **values)


def telemetry_story(wire: Wire) -> None:
    clients = _Clients(wire)
    software = {"client_software_name": "golden", "client_software_version": "1.0"}
    versions = wire.ask_quietly(ApiKey.API_VERSIONS, 4, **software)
    wire.answers["versions"] = {
        str(row.api_key): [row.min_version, row.max_version]
        for row in versions.api_keys
        if row.api_key in (71, 72)
    }
    number = clients.get("GET_TELEMETRY_SUBSCRIPTIONS 0")
    clients.get("again, at once")
    clients.push("PUSH_TELEMETRY 0", number)
    clients.push("pushed again, at once", number)
    clients.push("the last, at once", number, terminating=True)
    clients.push("after the last", number)
    clients.push("after that", number)
    answer = wire.ask_quietly(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, client_instance_id=None)
    wire.answers["a new id"] = answer.client_instance_id not in (None, uuid.UUID(int=1))
    _push_what_is_refused(clients)
    _subscribe(wire, clients)


def _push_what_is_refused(clients: _Clients) -> None:
    def refuse(label: str, *, of: Callable[[int], int] = int, **fields: Any) -> None:
        clients.begin()
        clients.push(label, of(clients.get(f"before {label}")), **fields)
        clients.get(f"after {label}")

    refuse("without an id", client_instance_id=None)
    refuse("a reserved id", client_instance_id=uuid.UUID(int=1))
    refuse("another number", of=lambda number: number ^ 1)
    refuse("codec 5", compression_type=5)
    refuse("codec -1", compression_type=-1)
    refuse("too many bytes", metrics=bytes(10_001))
    refuse("nothing", metrics=b"")
    refuse("no metrics", metrics=b"\xff\xff")
    refuse("cut off", metrics=_METRICS[:-1])
    refuse("no UTF-8", metrics=pushed(gauge("m", point(1)).replace(b"m", b"\xff")))
    for codec in Compression:
        refuse(f"in {codec.name}", metrics=compress(_METRICS, codec), compression_type=int(codec))
    for codec in (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD):
        refuse(f"no {codec.name}", metrics=b"no such bytes", compression_type=int(codec))
        grown = compress(bytes(20_000), codec)
        refuse(f"much in {codec.name}", metrics=grown, compression_type=int(codec))
    clients.begin()
    clients.push("without having asked", 7)
    clients.get("after having pushed")


def _subscribe(wire: Wire, clients: _Clients) -> None:
    def configure(name: str, **texts: str) -> None:
        configs = [
            {"name": key.replace("_", "."), "config_operation": 0, "value": text}
            for key, text in texts.items()
        ]
        resources = [{"resource_type": 16, "resource_name": name, "configs": configs}]
        answer = wire.ask_quietly(
            ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=resources, validate_only=False
        )
        assert answer.responses[0].error_code == 0, answer

    def is_applied(name: str) -> bool:
        resource = {"resource_type": 16, "resource_name": name, "configuration_keys": ["metrics"]}
        (result,) = wire.ask_quietly(ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource]).results
        return any(one.value for one in result.configs)

    clients.begin()
    number = clients.get("before a subscription")
    clients.push("pushed before a subscription", number)
    for label, texts in (
        ("one", {"metrics": "org.apache.kafka.producer", "interval_ms": "60000"}),
        (
            "two",
            {
                "metrics": "org.apache.kafka.consumer",
                "match": "client_id=gold.*,client_software_name=g[o]lden",
            },
        ),
        ("no part", {"metrics": "*", "match": "client_id=gold"}),
        ("source", {"metrics": "org", "interval_ms": "100000", "match": "client_source_address=127.0.0.1"}),
        ("no software", {"metrics": "*", "match": "client_software_version=2.*"}),
        ("all", {"metrics": "*", "interval_ms": "50000", "match": "client_source_port=[0-9]+"}),
    ):
        configure(label, **texts)
        wait_until(label, partial(is_applied, label))
        clients.push(f"pushed before {label}", number)
        number = clients.get(f"subscribed: {label}")
        clients.get(f"subscribed again: {label}")
        clients.push(f"pushed: {label}", number)


STORIES: Final = {"telemetry": telemetry_story}
