"""A broker in a process of its own, started, stopped, killed and made to misbehave by a test.

    test process                      broker process (`child`)
      stdin pipe   ── commands ──▶      a thread reads them; the end of the pipe ends the process
      stdout pipe  ◀── `ready …`, one answer per command
      broker.log   ◀── everything that the broker logs

The pipe makes leaks impossible: it closes when the test process ends, in any way. The broker is a process and not a
thread, because a test can kill a process, and because its loop must not share the test's. Little but the standard
library and the names of settings is imported here; the client is imported with the first topic.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

from odradek.foundation import interpreter
from odradek.testing.security import PLAINTEXT, ListenerSecurity
from odradek.testing.settings import setting_text, setting_texts

START_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 30.0
COMMAND_SECONDS_MAX = 10.0
_LOG_BYTES_IN_ERROR = 8_000
# Settings that make a broker fast enough for a test: groups do not wait for more members, internal topics are small.
QUICK_SETTINGS: Mapping[str, str] = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
}


class BrokerFailedToStartError(RuntimeError):
    """The broker ended or did not get ready in time. The message contains its output."""


class TestBroker:
    """One broker on 127.0.0.1 and a free port; port and data stay the same over `stop`, `kill` and `restart`.

    `settings` are Kafka's server.properties keys; an unknown one raises ValueError. With a `security_protocol` clients
    need TLS, a login of one of the `users` (name to password), or both; `client_properties` has what they need.

    All methods are synchronous and may also be called while an event loop runs: they wait for another process, never
    for that loop.
    """

    __test__ = False  # not a test class, although pytest would collect its name

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        settings: Mapping[str, object] | None = None,
        port: int = 0,
        log_level: str = "info",
        start_seconds_max: float = START_SECONDS_MAX,
        security_protocol: str = PLAINTEXT,
        users: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.data = self.folder / "data"
        self.port = port
        """0 until the first start, when a free one is chosen."""
        self._security = ListenerSecurity(security_protocol, users, self.folder)
        self._fixture_port = 0
        """Where this object's own calls connect: beside a listener that asks for more, one without protection."""
        self._settings = {**QUICK_SETTINGS, **self._security.settings(), **setting_texts(settings or {})}
        self._log_level = log_level
        self._start_seconds_max = start_seconds_max
        self._log = self.folder / "broker.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._commands = threading.Lock()

    def __enter__(self) -> TestBroker:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- facts ----------------------------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """The value of a Kafka client's bootstrap.servers."""
        return f"127.0.0.1:{self.port}"

    def client_properties(self, user: str | None = None) -> dict[str, str]:
        """What a client needs besides the address, with the keys of Kafka's clients: `Client(…, security=…)` takes it.

        `user` is one of the users, or the first one. Raises KeyError for another.
        """
        return self._security.client_properties(user)

    def librdkafka_properties(self, user: str | None = None) -> dict[str, str]:
        """The same with the keys of librdkafka, as confluent-kafka and kcat have them."""
        return self._security.librdkafka_properties(user)

    @property
    def pid(self) -> int:
        """The broker's process id. Raises RuntimeError when it does not run."""
        return self._running().pid

    @property
    def is_running(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def logs(self) -> str:
        """Everything the broker has logged, over all its starts."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    # --- life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start and wait until it serves. Raises BrokerFailedToStartError with the broker's output."""
        if self.is_running:
            raise RuntimeError("the broker is already running")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._security.write_files()
        command = interpreter.command("odradek.testing.child")
        for protocol, port in self._listeners().items():
            command += ["--listen", f"{protocol}://127.0.0.1:{port}"]
        command += ["--data", str(self.data)]
        command += ["--log-level", self._log_level]
        for key, value in self._settings.items():
            command += ["--set", f"{key}={value}"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=interpreter.environment(),
                bufsize=0,
            )
        try:
            ports = self._await_ready(time.monotonic() + self._start_seconds_max)
            self.port, self._fixture_port = ports[self._security.protocol], ports[PLAINTEXT]
        except BaseException:
            self.close()
            raise

    def stop(self) -> int:
        """Stop as SIGTERM does: cleanly, with all records flushed. Returns the exit code (0 after a clean stop)."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """Stop as `kill -9` and power failures do: at once. Returns the exit code (-9)."""
        return self._end(signal.SIGKILL)

    def restart(self, *, crash: bool = False) -> None:
        """Stop (or kill, with `crash`) if it runs, and start again on the same port and data."""
        if self.is_running:
            _ = self.kill() if crash else self.stop()
        self.start()

    def close(self) -> None:
        """End the process, whatever its state. The data stays."""
        if self._process is None:
            return
        if self.is_running:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process = None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError(f"the broker does not run; its log ends with\n{self._log_tail()}")
        return self._process

    def _end(self, how: signal.Signals) -> int:
        process = self._running()
        process.send_signal(how)
        try:
            code = process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.close()
            raise RuntimeError(
                f"the broker did not end within {STOP_SECONDS_MAX:g} s of {how.name}; "
                f"its log ends with\n{self._log_tail()}"
            ) from None
        self.close()
        return code

    def _listeners(self) -> dict[str, int]:
        """The ports by the protocol, 0 before the first start."""
        if self._security.protocol == PLAINTEXT:
            return {PLAINTEXT: self.port}
        return {PLAINTEXT: self._fixture_port, self._security.protocol: self.port}

    def _await_ready(self, deadline: float) -> dict[str, int]:
        while True:
            line = self._read_line(deadline)
            if line is None:
                code = self._process.poll() if self._process is not None else None
                what = (
                    f"did not get ready in {self._start_seconds_max:g} s"
                    if code is None
                    else f"ended with {code}"
                )
                raise BrokerFailedToStartError(f"the broker {what}; it said\n{self._log_tail()}")
            if line.startswith("ready"):
                return _ports_in(line)

    def _read_line(self, deadline: float) -> str | None:
        """The next line of the broker's stdout; None when it ends or the time is up."""
        assert self._process is not None and self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        received = b""
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while not received.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    return None
                byte = os.read(descriptor, 1)
                if not byte:
                    self._process.wait()
                    return None
                received += byte
        return received.decode(errors="replace")

    def _log_tail(self) -> str:
        return self.logs[-_LOG_BYTES_IN_ERROR:] or "(nothing)"

    # --- topics and faults ----------------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication_factor: int = 1,
        configs: Mapping[str, object] | None = None,
    ) -> None:
        """Create a topic. Raises `odradek.foundation.errors.TopicAlreadyExists`, `InvalidTopic` and the like."""
        from odradek.testing.topics import create_topic

        settings = {key: setting_text(value, key) for key, value in (configs or {}).items()}
        _in_thread(
            create_topic,
            f"127.0.0.1:{self._fixture_port}",
            name,
            partitions=partitions,
            replication_factor=replication_factor,
            configs=settings,
        )

    def delete_topic(self, name: str) -> None:
        """Delete a topic. Raises `odradek.foundation.errors.UnknownTopicOrPartition`."""
        from odradek.testing.topics import delete_topic

        _in_thread(delete_topic, f"127.0.0.1:{self._fixture_port}", name)

    def fail(self, api: str, *, error: str | int, times: int | None = None, after: int = 0) -> None:
        """Answer an API with an error instead of doing it: `broker.fail("produce", error="NOT_LEADER_OR_FOLLOWER")`.

        `api` is Kafka's name (`Produce`, `list_offsets`), `error` Kafka's name or number. It ends after `times`
        requests (None: when cleared), and begins after `after` good ones. `create_topic` and `delete_topic` of this
        object are excluded from faults. Raises ValueError for an unknown name.
        """
        self._command({"do": "fault", "api": api, "error": error, "times": times, "after": after})

    def delay(self, api: str, ms: float, *, times: int | None = None, after: int = 0) -> None:
        """Delay the answers of an API by `ms` milliseconds; `times` and `after` as for `fail`."""
        self._command({"do": "fault", "api": api, "delay_ms": ms, "times": times, "after": after})

    def disconnect(self, api: str, *, times: int | None = None, after: int = 0) -> None:
        """Close the connection of an API's request; `times` and `after` as for `fail`."""
        self._command({"do": "fault", "api": api, "disconnect": True, "times": times, "after": after})

    def clear_faults(self) -> None:
        """End all faults. A restart does so too."""
        self._command({"do": "clear"})

    def _command(self, command: dict[str, object]) -> None:
        """Send a command to the broker's process and wait until it is in force. Raises ValueError, RuntimeError."""
        process = self._running()
        assert process.stdin is not None
        with self._commands:
            process.stdin.write(json.dumps(command).encode() + b"\n")
            line = self._read_line(time.monotonic() + COMMAND_SECONDS_MAX)
        if line is None:
            raise RuntimeError(f"the broker did not accept {command}; its log ends with\n{self._log_tail()}")
        problem = json.loads(line).get("error")
        if problem is not None:
            raise ValueError(problem)


def _ports_in(ready: str) -> dict[str, int]:
    """The ports in the line, by the listener's name. Raises BrokerFailedToStartError for a line without one."""
    ports = {}
    for word in ready.split():
        name, separator, address = word.partition("://")
        if separator and not name.startswith("admin="):
            ports[name] = int(address.rpartition(":")[2])
    if PLAINTEXT not in ports:
        raise BrokerFailedToStartError(f"the broker got ready without an address: {ready.strip()}")
    return ports


def _in_thread(call: Callable[..., object], *arguments: object, **named: object) -> None:
    """Run `call` in a thread without an event loop, and raise its error here."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            call(*arguments, **named)
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=run, name="odradek.testing")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
