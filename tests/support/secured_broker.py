"""A broker process whose listeners are secured: one of each kind, with certificates of a test's own authority."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.support.broker_process import Broker, free_port
from tests.support.certificates import Authority


class SecuredBroker(Broker):
    """`odradek start --config`, with a listener for each of `kinds`: name to security protocol.

    `bootstraps` has the address of each listener. The authority's certificate is `ca.pem` in the folder, and the key
    and certificate of a user `alice` are `alice.pem`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        kinds: Mapping[str, str],
        settings: Mapping[str, str] | None = None,
        authority: Authority | None = None,
    ) -> None:
        super().__init__(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.authority = authority or Authority()
        self.ca_file = self.authority.write(folder / "ca.pem")
        self.server_file = self.authority.leaf("broker").write(folder / "broker.pem")
        self.alice_file = self.authority.leaf("alice").write(folder / "alice.pem")
        self.bootstraps = {name: f"127.0.0.1:{free_port()}" for name in kinds}
        self.port = int(next(iter(self.bootstraps.values())).rpartition(":")[2])
        self.entries = {
            "log.dirs": str(self.data),
            "listeners": ",".join(f"{name}://{address}" for name, address in self.bootstraps.items()),
            "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in kinds.items()),
            "group.initial.rebalance.delay.ms": "0",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.server_file),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca_file),
            **(settings or {}),
        }

    def command(self) -> list[str]:
        config = self.folder / "server.properties"
        config.write_text(
            "".join(
                f"{key}={text.replace(chr(92), chr(92) * 2)}\n" for key, text in self.entries.items()
            ).replace("\\\\n", "\\n")
        )
        base = super().command()
        start = base.index("start")
        return [*base[: start + 1], "--config", str(config), *self.arguments]
