"""A broker with logins, TLS and an authorizer, an honest client, and what an attack of others costs both."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import psutil

from odradek.foundation.limits import LOG_LINE_BYTES_MAX, REQUEST_BYTES_TOTAL_MAX
from odradek.wire.protocol.api import ApiKey
from tests.attack.honest_process import HonestProcess
from tests.support.broker_process import SecuredBroker
from tests.support.honest_client import TOPIC
from tests.support.plain_client import PlainClient

PASSWORD: Final = "what admin knows"
USERS: Final = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'user_admin="{PASSWORD}" user_mallory="mallory";'
)


class Cost(NamedTuple):
    """What an attack cost: the most memory, and the honest client's longest wait."""

    resident_bytes: int
    longest_wait_seconds: float


class Arena:
    """The broker. `OPEN` takes any client, without rights; `LOGIN` and `SECURE` want a login.

    `admin` may do all, and `mallory` only what begins with `m-`.
    """

    def __init__(self, folder: Path) -> None:
        self.broker = SecuredBroker(
            folder,
            kinds={"OPEN": "PLAINTEXT", "LOGIN": "SASL_PLAINTEXT", "SECURE": "SASL_SSL"},
            settings={
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.login.plain.sasl.jaas.config": USERS,
                "listener.name.secure.plain.sasl.jaas.config": USERS,
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:admin",
                "connections.max.idle.ms": "60000",
            },
        )

    def start(self) -> None:
        self.broker.start()
        with self.admin() as admin:
            admin.create_topic(TOPIC)
            admin.ask(ApiKey.CREATE_ACLS, 3, creations=[_allowed_prefix(2), _allowed_prefix(3)])
        self.idle_bytes = self.resident()

    def port(self, listener: str) -> int:
        return int(self.broker.bootstraps[listener].rpartition(":")[2])

    def admin(self) -> PlainClient:
        return self.logged_in("admin", PASSWORD)

    def logged_in(self, user: str, password: str) -> PlainClient:
        client = PlainClient(self.port("LOGIN"))
        assert int(client.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN").error_code) == 0
        token = f"\0{user}\0{password}".encode()
        assert int(client.ask(ApiKey.SASL_AUTHENTICATE, 1, auth_bytes=token).error_code) == 0
        return client

    def records(self) -> list[bytes]:
        with self.admin() as admin:
            return admin.fetch_all(TOPIC)

    def resident(self) -> int:
        return int(psutil.Process(self.broker.pid).memory_info().rss)

    @property
    def bytes_max(self) -> int:
        """What is declared: three times the idle broker, and the bound on requests."""
        return 3 * self.idle_bytes + REQUEST_BYTES_TOTAL_MAX

    def withstands(self, attack: Callable[[], Any]) -> Cost:
        """Nothing is lost, the honest client is served, and memory stays within what is declared."""
        before = self.records()
        honest = HonestProcess(self.port("LOGIN"), login=("admin", PASSWORD))
        with watched(self.broker.pid) as memory, honest:
            held = attack() or []
            honest.wait_for_answers(20)
            for one in held:
                one.close()
        honest.check(before, self.records())
        assert self.broker.is_running
        assert memory.peak_bytes <= self.bytes_max, f"{memory.peak_bytes} bytes of {self.bytes_max}"
        return Cost(memory.peak_bytes, honest.longest_wait_seconds)

    def stop(self) -> None:
        """Stop it, and look at what it logged."""
        assert self.broker.stop() == 0
        log = self.broker.log()
        assert "Traceback" not in log
        assert PASSWORD not in log
        assert all(len(line.encode()) < LOG_LINE_BYTES_MAX for line in log.splitlines())


def _allowed_prefix(resource_type: int) -> dict[str, object]:
    """Everything on topics (2) or groups (3) whose name begins with m-, for mallory."""
    return {
        "resource_type": resource_type,
        "resource_name": "m-",
        "resource_pattern_type": 4,
        "principal": "User:mallory",
        "host": "*",
        "operation": 2,
        "permission_type": 3,
    }


class Memory:
    """The most resident memory of a process."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self.peak_bytes = 0

    def look(self) -> None:
        self.peak_bytes = max(self.peak_bytes, self._process.memory_info().rss)


@contextmanager
def watched(pid: int) -> Iterator[Memory]:
    memory = Memory(pid)
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(0.01):
            memory.look()

    thread = threading.Thread(target=watch, name="memory", daemon=True)
    thread.start()
    try:
        yield memory
    finally:
        is_over.set()
        thread.join()
        memory.look()
