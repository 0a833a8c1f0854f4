"""A broker with the methods of testcontainers' `KafkaContainer`, without a container.

from odradek.testing.containers import KafkaContainer

with KafkaContainer() as kafka:
    connect(kafka.get_bootstrap_server())
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Mapping
from types import TracebackType

from odradek.testing.process import TestBroker

# Settings that the container chooses itself.
_CHOSEN = ("listeners", "advertised.listeners", "listener.security.protocol.map", "log.dirs", "log.dir")


class KafkaContainer:
    """One broker on 127.0.0.1 and a free port, with an empty folder at each start.

    `image` and `port` are there so that a test written for testcontainers stays as it is. No image is run: the broker
    is this package's. `port` is what `get_exposed_port` expects. The rest is `odradek.testing.broker`'s.
    """

    def __init__(
        self,
        image: str = "odradek",
        port: int = 9093,
        *,
        settings: Mapping[str, object] | None = None,
        security_protocol: str = "PLAINTEXT",
        users: Mapping[str, str] | None = None,
    ) -> None:
        self.image = image
        self.port = port
        self._settings = dict(settings or {})
        self._security_protocol = security_protocol
        self._users = users
        self._broker: TestBroker | None = None

    # --- before the start -------------------------------------------------------------------------------------------

    def with_env(self, key: str, value: str) -> KafkaContainer:
        """A setting by the name that Kafka's images give it: KAFKA_NUM_PARTITIONS for num.partitions.

        Raises ValueError for another variable, and for what the container chooses itself.
        """
        setting = _setting_of(key)
        if setting in _CHOSEN:
            raise ValueError(f"{key}: the container chooses {setting} itself; leave it out")
        self._settings[setting] = value
        return self

    def with_envs(self, **variables: str) -> KafkaContainer:
        """Several settings, as `with_env`."""
        for key, value in variables.items():
            self.with_env(key, value)
        return self

    def with_kraft(self) -> KafkaContainer:
        """Nothing: the broker needs no ZooKeeper in any case."""
        return self

    # --- its life ---------------------------------------------------------------------------------------------------

    def start(self) -> KafkaContainer:
        """Start, and wait until it serves. Raises ValueError for an unknown setting, BrokerFailedToStartError."""
        if self._broker is not None:
            raise RuntimeError("the container runs already")
        folder = tempfile.mkdtemp(prefix="odradek-")
        try:
            broker = TestBroker(
                folder,
                settings=self._settings,
                security_protocol=self._security_protocol,
                users=self._users,
            )
            broker.start()
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._broker = broker
        return self

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:
        """End it and remove its folder; with `force=False` cleanly, and with `delete_volume=False` the folder stays."""
        broker, self._broker = self._broker, None
        if broker is None:
            return
        try:
            if not force and broker.is_running:
                broker.stop()
        finally:
            broker.close()
            if delete_volume:
                shutil.rmtree(broker.folder, ignore_errors=True)

    def __enter__(self) -> KafkaContainer:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> KafkaContainer:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    # --- while it runs ----------------------------------------------------------------------------------------------

    @property
    def broker(self) -> TestBroker:
        """The broker: topics, faults, crashes. Raises RuntimeError before the start."""
        if self._broker is None:
            raise RuntimeError("the container does not run: call start(), or enter it by `with`")
        return self._broker

    def get_bootstrap_server(self) -> str:
        """The value of a Kafka client's bootstrap.servers."""
        return self.broker.bootstrap

    def get_container_host_ip(self) -> str:
        """The host of the address."""
        return self.broker.bootstrap.rpartition(":")[0]

    def get_exposed_port(self, port: int) -> int:
        """The port of the address. Raises ValueError unless `port` is the container's."""
        if int(port) != self.port:
            raise ValueError(f"the container has no port {port}; it has {self.port}")
        return self.broker.port

    def get_logs(self) -> tuple[bytes, bytes]:
        """What it has printed, on stdout and on stderr; it logs on stderr."""
        return b"", self.broker.logs.encode()


def _setting_of(variable: str) -> str:
    """Kafka's key: `_` stands for a dot, `__` for `_`, `___` for a dash. Raises ValueError."""
    prefix, _, rest = variable.partition("_")
    if prefix != "KAFKA" or not rest:
        raise ValueError(f"{variable}: a setting is written like KAFKA_NUM_PARTITIONS for num.partitions")
    dashes = rest.lower().replace("___", "-")
    return ".".join(part.replace("\0", "_") for part in dashes.replace("__", "\0").split("_"))
