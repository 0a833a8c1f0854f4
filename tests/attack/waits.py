"""`python -m tests.attack.waits [WORDS …]`: what honest clients wait under each attack, and the memory it takes.

A row is an attack: what it was found to cost once, what it costs now, and what Apache Kafka 4.1.1 does under the same.
Words choose the rows whose names have one of them; `--sides odradek,kafka` asks Kafka as well. An attack is repeated
for two seconds.

Each side has an authorizer. Attackers come from 127.0.0.2 and may see groups, write to one compacted topic, and nothing
else. Honest clients are processes of their own: one produces on one connection, and one over TLS, on connections of ten
records each. So the longest wait over TLS has handshakes in it.

The goal is 50 ms, 100 ms over TLS, and three times the memory of the idle broker beside what is declared.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from odradek.foundation.limits import DECOMPRESSED_BATCH_BYTES_MAX, REQUEST_BYTES_TOTAL_MAX
from odradek.wire.protocol.api import ApiKey
from tests.attack import freezes
from tests.attack.attacks import ATTACKS, SOURCE, Attack, local
from tests.attack.honest_process import HonestProcess
from tests.support.broker_process import Broker, free_port
from tests.support.certificates import Authority
from tests.support.honest_client import TOPIC
from tests.support.kafka_peer import KafkaPeer
from tests.support.memory_peaks import peak_bytes, reset_peak, resident_bytes
from tests.support.plain_client import PlainClient
from tests.support.polling import wait_until

WAIT_MS_MAX: Final = 50
TLS_WAIT_MS_MAX: Final = 100
IDLE_TIMES_MAX: Final = 3
_ATTACK_SECONDS: Final = 2.0
_HELD_SECONDS: Final = 0.3
_SETTLE_SECONDS: Final = 0.3
_AUTHORIZER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # The first rules are made before there are any; from then on everything has some.
    "allow.everyone.if.no.acl.found": "true",
}
_TOPIC_RESOURCE, _GROUP_RESOURCE, _CLUSTER_RESOURCE, _TRANSACTION_RESOURCE = 2, 3, 4, 5
_ALL, _READ, _WRITE, _DELETE, _DESCRIBE = 2, 3, 4, 6, 8
_LITERAL, _PREFIXED = 3, 4
_UNKNOWN_MEMBER_ID = 25


class Row(NamedTuple):
    """One attack: what it cost when it was found, which port it goes to, and what else is declared for it."""

    name: str
    attack: Attack
    before: str = ""
    to: str = "plain"
    declared_bytes: int = REQUEST_BYTES_TOTAL_MAX


def rows() -> list[Row]:
    before = {"announce": "958 MB", "pipeline_unread": "3,900 ms"}
    found = [Row(_first_line(attack), attack, before.get(name, "")) for name, attack in ATTACKS.items()]
    for number, was in ((20_000, "2,600 ms"), (50_000, "13,800 ms"), (100_000, "60,000 ms")):
        found.append(Row(f"Metadata of {number:,} hidden names", freezes.of_names("metadata", number), was))
    found += [
        Row(f"{request} of 20,000", freezes.of_names(request, 20_000), "20,000 ms")
        for request in ("find coordinator", "offset fetch", "offset delete")
    ]
    found += [
        Row("20 at once: Metadata of 20,000 hidden names", freezes.at_once("metadata", 20_000, 20)),
        Row("20 at once: offset fetch of 20,000", freezes.at_once("offset fetch", 20_000, 20)),
        Row("200 at once: Metadata of 700 hidden names", freezes.at_once("metadata", 700, 200)),
        Row("200 at once: find coordinator of 700", freezes.at_once("find coordinator", 700, 200)),
    ]
    found.append(Row("Metadata of 400,000 missing topics", freezes.metadata_of_missing, "5,700 ms"))
    found.append(
        Row(
            "60 batches of 8 KB, 250 MB each",
            freezes.bombs,
            "21,700 ms",
            declared_bytes=REQUEST_BYTES_TOTAL_MAX + DECOMPRESSED_BATCH_BYTES_MAX,
        )
    )
    found += [
        Row("4 POST /record-times of 1 MB of gzip", freezes.compressed_record_times, "3,100 ms", "admin"),
        Row("4 POST /record-times of 1 MB", freezes.record_times(1_000_000), to="admin"),
        Row("4 POST /record-times of 300 KB", freezes.record_times(300_000), to="admin"),
    ]
    found += [Row(name, attack, "", "secure") for name, attack in freezes.HALF_OPEN.items()]
    return found


def _first_line(attack: Attack) -> str:
    return (attack.__doc__ or "").strip().splitlines()[0].rstrip(".")


class Side:
    """A broker under attack: ours or Kafka's."""

    def __init__(
        self, broker: Broker | KafkaPeer, *, secure_port: int, admin_port: int | None, ca_file: Path
    ):
        self.broker = broker
        self.ca_file = ca_file
        self.ports = {"plain": broker.port, "secure": secure_port, "admin": admin_port}
        self.idle_bytes = 0

    def start(self) -> None:
        self.broker.start()
        with PlainClient(self.broker.port) as client:
            client.create_topic(TOPIC)
            client.create_topic(freezes.COMPACTED, cleanup_policy="compact")
            answer = client.ask(ApiKey.CREATE_ACLS, 3, creations=_rules())
            assert {int(one.error_code) for one in answer.results} == {0}, answer
        _await_coordinator(self.broker.port)
        time.sleep(1)
        self.idle_bytes = resident_bytes(self.broker.pid)

    def restart(self) -> None:
        """Begin again after an attack that it did not stand."""
        self.broker.restart(crash=True)
        _await_coordinator(self.broker.port)

    def measure(self, row: Row) -> Measured:
        """Begin honest clients, attack, and see what they waited."""
        port = self.ports[row.to]
        assert port is not None
        reset_peak(self.broker.pid)
        with ExitStack() as stack:
            plain = stack.enter_context(HonestProcess(self.broker.port))
            tls = stack.enter_context(HonestProcess(self.ports["secure"] or 0, ca_file=str(self.ca_file)))
            times = _attack(row.attack, port)
            for honest in (plain, tls):
                honest.wait_for_answers(50)
        failures = [one.failure for one in (plain, tls) if one.failure is not None]
        time.sleep(_SETTLE_SECONDS)
        return Measured(
            plain.longest_wait_seconds * 1000,
            tls.longest_wait_seconds * 1000,
            peak_bytes(self.broker.pid) / 1e6,
            times,
            failures[0] if failures else None,
        )


def _attack(attack: Attack, port: int) -> int:
    """Attack for some seconds, and at least once; how many times it was."""
    ends_at = time.monotonic() + _ATTACK_SECONDS
    for times in count(1):
        held = attack(local(port))
        time.sleep(_HELD_SECONDS)
        for one in held:
            one.close()
        if time.monotonic() > ends_at:
            return times
    raise AssertionError("unreachable")


class Measured(NamedTuple):
    """What one attack cost."""

    wait_ms: float
    tls_wait_ms: float
    megabytes: float
    times: int
    failure: str | None

    @property
    def cells(self) -> str:
        if self.failure is not None:
            return f"cut off: {self.failure[:60]} | | {self.megabytes:.0f} MB"
        return f"{self.wait_ms:.0f} ms | {self.tls_wait_ms:.0f} ms | {self.megabytes:.0f} MB"


def _rules() -> list[dict[str, object]]:
    """127.0.0.1 may do everything; what attackers may is what the attacks need to get far."""
    every = ("*", _LITERAL)
    rules = [
        (resource, "kafka-cluster" if resource == _CLUSTER_RESOURCE else "*", _LITERAL, "127.0.0.1", _ALL)
        for resource in (_TOPIC_RESOURCE, _GROUP_RESOURCE, _CLUSTER_RESOURCE, _TRANSACTION_RESOURCE)
    ]
    rules += [(_GROUP_RESOURCE, *every, SOURCE, operation) for operation in (_DESCRIBE, _READ, _DELETE)]
    rules.append((_TOPIC_RESOURCE, freezes.COMPACTED, _LITERAL, SOURCE, _WRITE))
    rules.append((_TOPIC_RESOURCE, freezes.OPEN, _PREFIXED, SOURCE, _DESCRIBE))
    return [
        {
            "resource_type": resource,
            "resource_name": name,
            "resource_pattern_type": pattern,
            "principal": "User:ANONYMOUS",
            "host": host,
            "operation": operation,
            "permission_type": 3,
        }
        for resource, name, pattern, host, operation in rules
    ]


def _await_coordinator(port: int) -> None:
    """Until the topic of groups is made, and loaded."""
    with PlainClient(port) as client:

        def error_code() -> int:
            client.ask(ApiKey.FIND_COORDINATOR, 1, key="g", key_type=0)
            answer = client.ask(ApiKey.HEARTBEAT, 3, group_id="g", generation_id=1, member_id="unknown")
            return int(answer.error_code)

        wait_until("g has a coordinator", error_code, lambda code: code == _UNKNOWN_MEMBER_ID)


@contextmanager
def side(folder: Path, *, is_kafka: bool) -> Iterator[Side]:
    """A broker with a listener in clear and one with TLS, started."""
    folder.mkdir()
    authority = Authority()
    certificate = authority.leaf("broker").write(folder / "broker.pem")
    ca_file = authority.write(folder / "ca.pem")
    settings = {**_AUTHORIZER, "ssl.keystore.type": "PEM", "ssl.keystore.location": str(certificate)}
    secure_port, admin_port = free_port(), None
    broker: Broker | KafkaPeer
    if is_kafka:
        broker = KafkaPeer(folder / "kafka", quick=False)
        clients = f"PLAINTEXT://{broker.bootstrap},TLS://127.0.0.1:{secure_port}"
        broker.settings = settings | {
            "listeners": f"{clients},CONTROLLER://127.0.0.1:{broker.controller_port}",
            "advertised.listeners": clients,
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,TLS:SSL",
        }
    else:
        admin_port = free_port()
        broker = Broker(
            folder / "odradek",
            settings={**settings, "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TLS:SSL"},
            arguments=("--listen", f"TLS://127.0.0.1:{secure_port}", "--admin", f"127.0.0.1:{admin_port}"),
        )
    made = Side(broker, secure_port=secure_port, admin_port=admin_port, ca_file=ca_file)
    try:
        made.start()
        yield made
    finally:
        broker.close()


def main() -> int:
    """Exit code 0 when each row is within its goal."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack.waits")
    parser.add_argument("words", nargs="*", help="of the names of rows")
    parser.add_argument("--sides", default="odradek", help="odradek, kafka, or both with a comma between")
    arguments = parser.parse_args()
    sides = arguments.sides.split(",")
    chosen = [
        row for row in rows() if not arguments.words or any(word in row.name for word in arguments.words)
    ]
    measured: dict[str, list[str]] = {row.name: [] for row in chosen}
    excesses = []
    with tempfile.TemporaryDirectory() as folder:
        for name in sides:
            is_kafka = name == "kafka"
            with side(Path(folder, name), is_kafka=is_kafka) as one:
                print(f"{one.broker.name} idle: {one.idle_bytes / 1e6:.0f} MB", flush=True)
                for row in chosen:
                    if one.ports[row.to] is None:
                        measured[row.name].append("| |")
                        continue
                    cost = one.measure(row)
                    measured[row.name].append(cost.cells)
                    if cost.failure is not None:
                        one.restart()
                    print(f"{one.broker.name}: {row.name}: {cost.cells}, {cost.times} times", flush=True)
                    if not is_kafka and (reason := _excess(row, cost, one.idle_bytes)):
                        excesses.append(f"{row.name}: {reason}")
    heads = [f"{name}, longest wait | over TLS | memory" for name in sides]
    print(f"| attack | before | {' | '.join(heads)} |")
    print("| --- " * (2 + 3 * len(sides)) + "|")
    for row in chosen:
        print(f"| {row.name} | {row.before} | {' | '.join(measured[row.name])} |")
    for excess in excesses:
        print(f"beyond its goal: {excess}")
    return 1 if excesses else 0


def _excess(row: Row, cost: Measured, idle_bytes: int) -> str:
    reasons = []
    if cost.failure is not None:
        reasons.append(f"an honest client was cut off ({cost.failure})")
    if cost.wait_ms > WAIT_MS_MAX:
        reasons.append(f"a wait of {cost.wait_ms:.0f} ms")
    if cost.tls_wait_ms > TLS_WAIT_MS_MAX:
        reasons.append(f"a wait of {cost.tls_wait_ms:.0f} ms over TLS")
    declared = (IDLE_TIMES_MAX * idle_bytes + row.declared_bytes) / 1e6
    if cost.megabytes > declared:
        reasons.append(f"{cost.megabytes:.0f} MB of {declared:.0f} that are declared")
    return ", ".join(reasons)


if __name__ == "__main__":
    sys.exit(main())
