"""A real Kubernetes API server on loopback, without nodes: etcd and kube-apiserver as processes of this machine.

It judges and keeps objects (schemas, CEL, admission, roles), and nothing acts on them. `make tools` brings the
programs, where the one-node cluster for e2e has not yet.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.broker_process import CHECKOUT, free_port
from tests.support.polling import wait_until
from tests.support.programs import require_program

START_SECONDS_MAX = 60.0
_NOTE_CHARACTERS_MAX = 2_000
TOKEN = "of-no-other-use"


class ApiServer:
    """A running API server; `kubeconfig` names an administrator there."""

    def __init__(self, folder: Path, port: int) -> None:
        self.kubeconfig = folder / "kubeconfig"
        self.url = f"https://127.0.0.1:{port}"
        self.kubeconfig.write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: it\n"
            "contexts: [{name: it, context: {cluster: it, user: me}}]\n"
            f"users: [{{name: me, user: {{token: {TOKEN}}}}}]\n"
            f'clusters: [{{name: it, cluster: {{server: "{self.url}", insecure-skip-tls-verify: true}}}}]\n'
        )

    def kubectl(self, *arguments: str, given: str | None = None) -> str:
        """What kubectl says, warnings included. Raises CalledProcessError with it."""
        done = subprocess.run(
            [require_program("kubectl"), "--kubeconfig", str(self.kubeconfig), *arguments],
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            failure = subprocess.CalledProcessError(done.returncode, arguments, done.stdout)
            failure.add_note(done.stdout[-_NOTE_CHARACTERS_MAX:])
            raise failure
        return done.stdout

    def install_definitions(self) -> None:
        """Teach it the resources of the operator."""
        definitions = CHECKOUT / "manifests" / "crds"
        # A server that has just become ready may still refuse a request, or answer it too late.
        wait_until(
            "the definitions are taken",
            lambda: self.kubectl("apply", "--server-side", "--filename", str(definitions)),
            lambda _: True,
            not_yet=subprocess.CalledProcessError,
        )
        self.kubectl("wait", "--for=condition=Established", "--timeout=120s", "--filename", str(definitions))
        for file in definitions.iterdir():
            # An established definition takes a moment to be served.
            wait_until(
                f"{file.stem} is served",
                lambda file=file: self.kubectl("get", f"{file.stem}.odradek.io", "--all-namespaces"),  # type: ignore[misc]
                lambda _: True,
                not_yet=subprocess.CalledProcessError,
            )

    def make_cluster(self, namespace: str) -> None:
        """The definitions, a namespace, and a Cluster in it that no operator reconciles."""
        self.install_definitions()
        self.kubectl("create", "namespace", namespace)
        cluster = (CHECKOUT / "manifests" / "examples" / "single-broker.yaml").read_text()
        self.kubectl("apply", "--namespace", namespace, "--filename", "-", given=cluster)


@contextlib.contextmanager
def running_api_server(folder: Path) -> Iterator[ApiServer]:
    """An API server with nothing in it, which ends with the block."""
    etcd, server, _ = require_program("etcd"), require_program("kube-apiserver"), require_program("kubectl")
    store_port, peer_port, port = free_port(), free_port(), free_port()
    subprocess.run(
        ["openssl", "genrsa", "-out", str(folder / "accounts.key"), "2048"], check=True, capture_output=True
    )
    (folder / "tokens.csv").write_text(f'{TOKEN},admin,admin,"system:masters"\n')
    store_url, peer_url = f"http://127.0.0.1:{store_port}", f"http://127.0.0.1:{peer_port}"
    store_options = {
        "data-dir": folder / "etcd",
        "listen-client-urls": store_url,
        "advertise-client-urls": store_url,
        "listen-peer-urls": peer_url,
        "initial-advertise-peer-urls": peer_url,
        "initial-cluster": f"default={peer_url}",
        "unsafe-no-fsync": "true",
    }
    server_options = {
        "etcd-servers": store_url,
        "secure-port": port,
        "bind-address": "127.0.0.1",
        "cert-dir": folder / "certificates",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": folder / "accounts.key",
        "service-account-signing-key-file": folder / "accounts.key",
        "token-auth-file": folder / "tokens.csv",
        "authorization-mode": "RBAC",
        "service-cluster-ip-range": "10.0.0.0/20",
        "disable-admission-plugins": "ServiceAccount",
    }
    with (
        _process([etcd, *_options(store_options)], folder / "etcd.log"),
        _process([server, *_options(server_options)], folder / "server.log") as process,
    ):
        _wait(f"https://127.0.0.1:{port}/readyz", process, folder / "server.log")
        yield ApiServer(folder, port)


def _options(options: dict[str, object]) -> list[str]:
    return [f"--{name}={value}" for name, value in options.items()]


def _die_with_parent() -> None:
    """Called in the child: a test run that is killed leaves no server behind (PR_SET_PDEATHSIG, of Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


@contextlib.contextmanager
def _process(command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (
        log.open("wb") as said,
        subprocess.Popen(command, stdout=said, stderr=said, preexec_fn=_die_with_parent) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Until the server says that it is ready."""
    unverified = ssl._create_unverified_context()  # its certificate is its own
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {TOKEN}"})

    def answers() -> bool:
        if process.poll() is not None:
            pytest.fail(f"the API server ended: {log.read_text()[-3000:]}")
        with urllib.request.urlopen(request, context=unverified, timeout=2):
            return True

    wait_until("the API server is up", answers, not_yet=OSError, more=lambda: log.read_text()[-3000:])
