"""An honest client in a process of its own: what it waits for is the broker, and not the attack's own work beside it.

    python -m tests.attack.honest_process '{"port": 9092, "ca": null, "login": null}'

It produces a record each few milliseconds. With `ca` it does so over TLS, and connects newly after some records. Lines
of JSON go both ways: `answers N` is answered after N more records, `stop` with what was seen. Where it may, the process
has a high priority, as on a machine of its own.
"""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
from contextlib import suppress
from typing import Any, Final

from odradek.wire.protocol.api import ApiKey
from tests.support.broker_process import CHECKOUT
from tests.support.honest_client import TOPIC, HonestClient
from tests.support.plain_client import PlainClient
from tests.support.polling import SECONDS_MAX, wait_until

_PRIORITY: Final = -10
_RECORDS_PER_TLS_CONNECTION: Final = 10


class TlsClient(PlainClient):
    """The same over TLS."""

    def __init__(self, port: int, ca_file: str) -> None:
        super().__init__(port)
        context = ssl.create_default_context(cafile=ca_file)
        context.check_hostname = False
        self._socket = context.wrap_socket(self._socket, server_hostname="localhost")


class ReconnectingClient:
    """A client over TLS whose connections last for some records only: handshakes are part of what it waits for."""

    def __init__(self, port: int, ca_file: str) -> None:
        self._of = port, ca_file
        self._left = 0
        self._client: TlsClient | None = None

    def __enter__(self) -> ReconnectingClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def produce(self, topic: str, values: list[bytes]) -> tuple[int, int]:
        if not self._left:
            self.close()
            self._client = TlsClient(*self._of)
            self._left = _RECORDS_PER_TLS_CONNECTION
        self._left -= 1
        assert self._client is not None
        return self._client.produce(topic, values)


class HonestProcess:
    """A context. The calls are those of `HonestClient`, as far as attacks need them."""

    def __init__(
        self, port: int, *, ca_file: str | None = None, login: tuple[str, str] | None = None
    ) -> None:
        self._given = {"port": port, "ca": ca_file, "login": login}
        self._seen: dict[str, Any] = {}

    def __enter__(self) -> HonestProcess:
        environment = {**os.environ, "PYTHONPATH": f"{CHECKOUT / 'broker'}{os.pathsep}{CHECKOUT}"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.attack.honest_process", json.dumps(self._given)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=CHECKOUT,
            env=environment,
        )
        self.wait_for_answers(20)
        return self

    def __exit__(self, *_: object) -> None:
        self._seen = self._asked("stop")
        self._process.communicate(timeout=SECONDS_MAX)

    def wait_for_answers(self, count: int) -> None:
        """Until it has had `count` more answers, or failed."""
        self._asked(f"answers {count}")

    def _asked(self, command: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        said = self._process.stdout.readline()
        assert said, "the honest client's process ended"
        return dict(json.loads(said))

    @property
    def failure(self) -> str | None:
        """What ended it, once it is over; None where it was served all the while."""
        return None if self._seen["failure"] is None else str(self._seen["failure"])

    @property
    def longest_wait_seconds(self) -> float:
        return float(self._seen["longest"])

    @property
    def median_wait_seconds(self) -> float:
        return float(self._seen["median"])

    def check(self, before: list[bytes], kept: list[bytes]) -> None:
        """All its records are kept, behind those of `before`. Raises what ended it."""
        assert self.failure is None, self.failure
        count = int(self._seen["acknowledged"])
        assert count, "the honest client was not served at all"
        assert kept[len(before) :] == [b"%d" % number for number in range(count)]


def _connected(given: dict[str, Any]) -> Any:
    if given["ca"]:
        return ReconnectingClient(given["port"], given["ca"])
    client = PlainClient(given["port"])
    if given["login"]:
        assert int(client.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN").error_code) == 0
        token = "\0{}\0{}".format(*given["login"]).encode()
        assert int(client.ask(ApiKey.SASL_AUTHENTICATE, 1, auth_bytes=token).error_code) == 0
    return client


def _wait_for_answers(honest: HonestClient, count: int) -> None:
    wanted = len(honest.waits_seconds) + count
    wait_until(
        "the honest client is answered, or cut off",
        lambda: len(honest.waits_seconds) if honest.is_running else wanted,
        lambda answers: answers >= wanted,
        pause_seconds=0.005,
    )


def main(given: dict[str, Any]) -> None:
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _PRIORITY)
    with HonestClient(lambda: _connected(given)) as honest:
        begins_at = 0
        for line in sys.stdin:
            command, _, count = line.strip().partition(" ")
            if command == "stop":
                break
            _wait_for_answers(honest, int(count))
            # The first connection, and a topic that is opened, are no part of an attack.
            begins_at = begins_at or len(honest.waits_seconds)
            print(json.dumps({"answers": len(honest.waits_seconds)}), flush=True)
    waits = sorted(honest.waits_seconds[begins_at:]) or [0.0]
    seen = {
        "acknowledged": len(honest.acknowledged),
        "failure": None if honest.failure is None else repr(honest.failure),
        "longest": waits[-1],
        "median": waits[len(waits) // 2],
        "topic": TOPIC,
    }
    print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
