"""A real ZooKeeper on loopback: 3.9.3, from the jars that the PySpark wheel carries, up in about a second.

Its ticks are short, so that sessions of a few tenths of a second can be asked for. Left out: ensembles of several
servers; a client sees one server at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from kazoo.client import KazooClient

from odradek.metadata.registry.store import SessionState
from odradek.metadata.registry.zookeeper_store import ZookeeperStore
from tests.support.broker_process import free_port
from tests.support.class_archives import keep_class_archive, writing_options
from tests.support.java import (
    class_archive,
    java_arguments,
    java_environment,
    pyspark_jars,
)
from tests.support.local_process import STOP_SECONDS_MAX, LocalProcess

START_SECONDS_MAX = 60
TICK_MS = 100


class Certificates:
    """A certificate authority of the test's own, and what it signed: PEM files made by openssl."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.authority = folder / "authority.pem"
        self._openssl(
            *(
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
                "-days",
                "2",
            ),
            *("-keyout", "authority.key", "-out", "authority.pem", "-subj", "/CN=authority"),
            *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),  # Python 3.13 asks for it
        )

    def signed(self, name: str, *, host: str = "127.0.0.1", password: str = "") -> Path:
        """A PEM file with a private key and its certificate."""
        self._openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}"),
        )
        kind = "IP" if host[0].isdecimal() else "DNS"
        (self.folder / f"{name}.ext").write_text(f"subjectAltName={kind}:{host}\n")
        self._openssl(
            *(
                "x509",
                "-req",
                "-in",
                f"{name}.csr",
                "-CA",
                "authority.pem",
                "-CAkey",
                "authority.key",
                "-days",
                "2",
            ),
            *("-CAcreateserial", "-extfile", f"{name}.ext", "-out", f"{name}.crt"),
        )
        hidden = ("-v2", "aes256", "-passout", f"pass:{password}") if password else ("-nocrypt",)
        self._openssl("pkcs8", "-topk8", "-in", f"{name}.key", "-out", f"{name}.p8", *hidden)
        both = self.folder / f"{name}.pem"
        both.write_text((self.folder / f"{name}.p8").read_text() + (self.folder / f"{name}.crt").read_text())
        return both

    def _openssl(self, *arguments: str) -> None:
        done = subprocess.run(
            ["openssl", *arguments], cwd=self.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


async def end_session(store: ZookeeperStore, connect: str) -> None:
    """End the store's session from outside, as an expiry does: another client takes it over and closes it.

    When this returns the store knows.
    """
    session = store._session
    assert session is not None, "the store has no session"
    client_id = session.client.client_id
    assert client_id is not None, "the store is not connected"
    has_ended = asyncio.Event()
    forget = store.on_session_change(lambda state: has_ended.set() if state is SessionState.EXPIRED else None)

    def take_over() -> None:
        client = KazooClient(hosts=connect, client_id=client_id)
        # The store takes its session back at once: then this one has not started, and ends itself.
        with contextlib.suppress(client.handler.timeout_exception):
            client.start()
            client.stop()
            client.close()

    while not has_ended.is_set():
        await asyncio.to_thread(take_over)
        # Or it took it back before it was closed.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(has_ended.wait(), timeout=1)
    forget()


class ZooKeeper(LocalProcess):
    """One server; with `certificates` it also has a TLS port, which asks its clients for certificates. With `users`
    (name to password) every client must log in with SASL.

    `host` is an address of its own, and `wrapper` what its command begins with, for one that runs elsewhere.
    """

    def __init__(
        self,
        folder: Path,
        *,
        certificates: Certificates | None = None,
        users: Mapping[str, str] | None = None,
        host: str = "127.0.0.1",
        port: int | None = None,
        wrapper: Sequence[str] = (),
    ) -> None:
        super().__init__(folder / "zookeeper.log")
        self.folder = folder
        self.host = host
        self.port = port or free_port()
        self._wrapper = wrapper
        self.tls_port = free_port() if certificates is not None else None
        self._certificates = certificates
        self._users = users

    @property
    def connect(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start, and wait until it answers clients."""
        _archive_classes()
        self._start()

    def _start(self, *options: str) -> None:
        (self.folder / "data").mkdir(parents=True, exist_ok=True)
        configuration = self.folder / "zoo.cfg"
        configuration.write_text("".join(f"{line}\n" for line in self._configuration()))
        command = [
            *self._wrapper,
            *java_arguments(
                "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                [str(configuration)],
                classpath=_classpath(),
                heap="128m",
                options=(*self._options(), *options),
            ),
        ]
        self.spawn(command, env=java_environment(), cwd=self.folder)
        self.await_start(self._answers, seconds_max=START_SECONDS_MAX)

    def _configuration(self) -> list[str]:
        lines = [
            f"tickTime={TICK_MS}",
            f"dataDir={self.folder / 'data'}",
            f"clientPort={self.port}",
            f"clientPortAddress={self.host}",
            "maxSessionTimeout=60000",
            "maxClientCnxns=0",
            "admin.enableServer=false",
            "4lw.commands.whitelist=isro",
        ]
        if self._users is not None:
            (self.folder / "jaas.conf").write_text(
                "Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required\n"
                + "".join(f'  user_{user}="{password}"\n' for user, password in self._users.items())
                + ";\n};\n"
            )
            lines += [
                "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
                "enforce.auth.enabled=true",
                "enforce.auth.schemes=sasl",
            ]
        if self._certificates is not None:
            server = self._certificates.signed("server")
            lines += [
                f"secureClientPort={self.tls_port}",
                "secureClientPortAddress=127.0.0.1",
                "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
                f"ssl.keyStore.location={server}",
                f"ssl.trustStore.location={self._certificates.authority}",
            ]
        return lines

    def _options(self) -> Sequence[str]:
        # fsync would be the slowest part of every test.
        quick = ("-Dzookeeper.forceSync=no", "-Dzookeeper.preAllocSize=64")
        if self._users is None:
            return quick
        return (*quick, f"-Djava.security.auth.login.config={self.folder / 'jaas.conf'}")

    def _answers(self) -> bool:
        # Not `ruok`, which is answered before clients are: one that came then would wait for its time to be up.
        try:
            with socket.create_connection((self.host, self.port), timeout=1) as probe:
                probe.sendall(b"isro")
                if probe.recv(4) != b"rw":
                    return False
            if self.tls_port is not None:
                # It listens there a moment later.
                socket.create_connection((self.host, self.tls_port), timeout=1).close()
        except OSError:
            return False
        return True

    def pause(self) -> None:
        """SIGSTOP: it neither answers nor goes away."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End it if it runs, and remove what it wrote."""
        super().close()
        shutil.rmtree(self.folder / "data", ignore_errors=True)

    def write_class_archive(self, file: Path) -> None:
        """Start, and stop by SIGTERM, whereupon the server writes the classes that it loaded. Raises TimeoutExpired."""
        self._start(*writing_options(file))
        try:
            self.process.terminate()
            self.process.wait(STOP_SECONDS_MAX)
        finally:
            self.close()


def _classpath() -> str:
    return f"{pyspark_jars()}/*"


@cache
def _archive_classes() -> None:
    """Have the archive of a server's classes, with which it starts in half the time; made once in a checkout.

    A Java that makes none continues without it.
    """

    def write(file: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            ZooKeeper(Path(folder)).write_class_archive(file)

    keep_class_archive(class_archive(_classpath()), write)
