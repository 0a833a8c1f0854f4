"""Produce and consume over TLS beside Apache Kafka's TLS: what each gigabyte costs the broker.

    python -m bench --only tls --rounds 5

Both brokers have the same certificate (P-256) and Kafka's own clients, which choose TLS 1.3 with AES-256-GCM at both.
Neither broker can hand a file to the kernel over TLS. Topics are made at a listener in clear.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import tools
from bench.memory import log_bytes, touched
from bench.peers import SETTINGS, Peer, compiled, fresh_topic, storage
from bench.questions import Answers
from tests.support.broker_process import Broker, free_port
from tests.support.certificates import Authority
from tests.support.kafka_peer import KafkaPeer

PARTITIONS = 6
RECORD_BYTES = 1000


@dataclass(frozen=True, slots=True)
class TlsPeer:
    """A broker by its listener with TLS. `properties` is what a client needs, as a file of Kafka's."""

    plain: Peer
    port: int
    properties: Path

    @property
    def name(self) -> str:
        return self.plain.name

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pids(self) -> Sequence[int]:
        return self.plain.pids


def tls(answers: Answers, disk: str | None, *, rounds: int, records: int) -> None:
    """Ask `rounds` times after a discarded one."""
    with both_secured(disk) as peers:
        for number in range(rounds + 1):
            kept = answers if number else Answers()
            for peer in peers if number % 2 else peers[::-1]:
                throughput(peer, kept, records=records)


def throughput(peer: TlsPeer, answers: Answers, *, records: int) -> None:
    """A topic is filled as fast as the producer goes, then read from its beginning."""
    with fresh_topic(peer.plain, PARTITIONS) as topic:
        with touched(log_bytes(records=records, record_bytes=RECORD_BYTES)):
            sent = tools.produce(
                peer, topic, records=records, record_bytes=RECORD_BYTES, client_config=peer.properties
            )
        answers.add("TLS, produce 1 KB", peer.name, sent.megabytes_per_second)
        answers.add("broker CPU, TLS, produce 1 KB", peer.name, sent.cpu_seconds_per_gigabyte)
        got = tools.consume(
            peer, topic, records=records, record_bytes=RECORD_BYTES, client_config=peer.properties
        )
        answers.add("TLS, consume 1 KB", peer.name, got.megabytes_per_second)
        answers.add("broker CPU, TLS, consume 1 KB", peer.name, got.cpu_seconds_per_gigabyte)


@contextmanager
def both_secured(disk: str | None) -> Iterator[list[TlsPeer]]:
    """Both brokers, started, each with a listener in clear and one with TLS."""
    compiled()
    with storage(disk) as folder:
        authority = Authority("bench")
        certificate = authority.leaf("broker").write(folder / "broker.pem")
        properties = folder / "client.properties"
        properties.write_text(
            "security.protocol=SSL\nssl.truststore.type=PEM\n"
            f"ssl.truststore.location={authority.write(folder / 'ca.pem')}\n"
        )
        peers = [
            tls_of_ours(folder, certificate, properties),
            _kafka(folder, certificate, properties),
        ]
        try:
            for peer in peers:
                peer.plain.start()
            yield peers
        finally:
            for peer in peers:
                peer.plain.close()


def _settings(certificate: Path) -> dict[str, str]:
    return {**SETTINGS, "ssl.keystore.type": "PEM", "ssl.keystore.location": str(certificate)}


def tls_of_ours(folder: Path, certificate: Path, properties: Path) -> TlsPeer:
    """Our broker, which is not started yet."""
    port = free_port()
    protocols = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TLS:SSL"}
    broker = Broker(
        folder / "odradek",
        settings=_settings(certificate) | protocols,
        arguments=("--listen", f"TLS://127.0.0.1:{port}"),
    )
    return TlsPeer(broker, port, properties)


def _kafka(folder: Path, certificate: Path, properties: Path) -> TlsPeer:
    port = free_port()
    broker = KafkaPeer(folder / "kafka", quick=False)
    clients = f"PLAINTEXT://{broker.bootstrap},TLS://127.0.0.1:{port}"
    broker.settings = _settings(certificate) | {
        "listeners": f"{clients},CONTROLLER://127.0.0.1:{broker.controller_port}",
        "advertised.listeners": clients,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,TLS:SSL",
    }
    return TlsPeer(broker, port, properties)
