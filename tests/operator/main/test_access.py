"""How the operator logs in: service accounts, credential plugins and OIDC, and what happens when credentials end."""

from __future__ import annotations

import asyncio
import base64
import datetime
import json
import ssl
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from aiohttp import web
from kubernetes.config import incluster_config

from helm.generate.yaml_text import read_document
from odradek_operator.gateways.api_server import ApiServerGateway
from odradek_operator.gateways.kubernetes import TOPICS, KubernetesError, NoAccess
from odradek_operator.main import access
from odradek_operator.main.access import configure, load, log_in
from tests.operator.support.api_server import ApiServer
from tests.support.stories import in_real_time
from tests.support.zookeeper import Certificates

PLUGIN = """
import json, os, pathlib, sys, datetime
folder = pathlib.Path(sys.argv[1])
runs = len(list(folder.glob("run-*"))) + 1
(folder / f"run-{runs}").write_text(os.environ["KUBERNETES_EXEC_INFO"])
if not (folder / "tokens").exists():
    sys.exit("not logged in")
status = {"token": (folder / "tokens").read_text()}
if len(sys.argv) > 2:
    ends = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=int(sys.argv[2]))
    status["expirationTimestamp"] = ends.strftime("%Y-%m-%dT%H:%M:%SZ")
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}))
"""


class Plugin:
    """A credential plugin in a kubeconfig: it gives the token of a file, and counts its runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "plugin.py").write_text(PLUGIN)

    def gives(self, token: str) -> None:
        (self._folder / "tokens").write_text(token)

    @property
    def runs(self) -> int:
        return len(list(self._folder.glob("run-*")))

    def user(self, *, seconds: int | None = None) -> dict[str, Any]:
        """Of a token that ends after so many seconds, or of which no end is known."""
        arguments = [str(self._folder / "plugin.py"), str(self._folder)]
        return {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": sys.executable,
                "args": arguments if seconds is None else [*arguments, str(seconds)],
                "interactiveMode": "Never",
                "provideClusterInfo": True,
            }
        }


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Writes the kubeconfig that KUBECONFIG names."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    def write(server: str, user: dict[str, Any], **context: str) -> Path:
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "s", "user": "u", **context}}],
            "clusters": [{"name": "s", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": user}],
        }
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(content))
        monkeypatch.setenv("KUBECONFIG", str(path))
        return path

    return write


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a pod's service account, with the token "first"."""
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text("first")
    (folder / "namespace").write_text("system\n")
    (folder / "ca.crt").write_text(Path(ssl.get_default_verify_paths().cafile or "").read_text())
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(folder / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(folder / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    return folder


def in_a_pod(url: str) -> Callable[[], Any]:
    """The pod's configuration, but for the address: the test's server has no TLS."""

    async def configure_there() -> Any:
        configuration = await configure()
        configuration.host = url
        return configuration

    return configure_there


@in_real_time
async def test_a_service_accounts_token_is_read_again_when_a_minute_has_passed(
    account: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Later(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Later:
            return cls.fromtimestamp(datetime.datetime.now(tz).timestamp() + 61)

    async with ApiServer() as server:
        server.token = "first"
        async with ApiServerGateway(in_a_pod(server.url)) as kubernetes:
            await kubernetes.list(TOPICS, None)
            (account / "token").write_text("second")
            later = SimpleNamespace(datetime=Later, timedelta=datetime.timedelta)
            monkeypatch.setattr(incluster_config, "datetime", later)
            monkeypatch.setattr(access, "TOKEN_LOOK_SECONDS", 0.0)
            server.token = "second"
            await kubernetes.list(TOPICS, None)
        assert server.requests == [("GET", TOPICS.path(None))] * 2, "none was refused"


@in_real_time
async def test_a_service_accounts_token_that_is_refused_is_read_again_at_once(account: Path) -> None:
    async with ApiServer() as server:
        server.token = "first"
        async with ApiServerGateway(in_a_pod(server.url)) as kubernetes:
            await kubernetes.list(TOPICS, None)
            (account / "token").write_text("second")
            server.token = "second"
            await kubernetes.list(TOPICS, None)
        assert len(server.requests) == 3


def test_kopf_logs_in_as_the_same_service_account(account: Path) -> None:
    info = log_in()
    assert info.server == "https://10.0.0.1:443"
    assert (info.token, info.default_namespace) == ("first", "system")
    assert info.ca_path == str(account / "ca.crt") and not info.insecure
    assert load().namespace == "system"


@in_real_time
async def test_a_plugin_gives_the_next_token_before_the_former_one_ends(
    plugin: Plugin, write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ApiServer() as server:
        # Within five minutes of its end the package asks for another.
        write(server.url, plugin.user(seconds=60))
        plugin.gives("first")
        server.token = "first"
        async with ApiServerGateway(configure) as kubernetes:
            await kubernetes.list(TOPICS, None)
            plugin.gives("second")
            server.token = "second"
            monkeypatch.setattr(access, "TOKEN_LOOK_SECONDS", 0.0)
            # Two at a time wait for one run.
            before = plugin.runs
            await asyncio.gather(kubernetes.list(TOPICS, None), kubernetes.list(TOPICS, None))
            assert plugin.runs == before + 1
        assert len(server.requests) == 3, "none was refused"


@in_real_time
async def test_a_plugin_runs_again_only_for_a_refused_token(
    plugin: Plugin, write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ApiServer() as server:
        write(server.url, plugin.user(), namespace="shop")
        plugin.gives("first")
        server.token = "first"
        async with ApiServerGateway(configure) as kubernetes:
            monkeypatch.setattr(access, "TOKEN_LOOK_SECONDS", 0.0)
            await kubernetes.list(TOPICS, None)
            await kubernetes.list(TOPICS, None)
            assert plugin.runs == 1
            plugin.gives("second")
            server.token = "second"
            await asyncio.gather(*(kubernetes.list(TOPICS, None) for _ in range(5)))
            assert plugin.runs == 2
            # What it gives is refused as well: that is an error, and the plugin is left alone for a while.
            server.token = "third"
            for _ in range(3):
                with pytest.raises(KubernetesError, match="401: Unauthorized") as refused:
                    await kubernetes.list(TOPICS, None)
                assert (refused.value.status, refused.value.reason) == (401, "Unauthorized")
            assert plugin.runs == 2
        info = log_in()
        assert (info.token, info.default_namespace, info.server) == ("second", "shop", server.url)


def test_a_plugin_that_gives_nothing_is_a_sentence(
    plugin: Plugin, write: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    path = write("http://127.0.0.1:1", plugin.user())
    with pytest.raises(NoAccess, match=f"the credential plugin of the kubeconfig {path} gave nothing"):
        load()
    assert "not logged in" in caplog.text


def test_a_plugin_that_does_not_end_is_not_waited_for(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sleep", "args": ["2"]}
    write("http://127.0.0.1:1", {"exec": hanging})
    monkeypatch.setattr(access, "LOAD_SECONDS_MAX", 0.1)
    with pytest.raises(NoAccess, match="did not end within"):
        asyncio.run(configure())


def test_an_issuer_whose_certificate_would_not_be_checked_is_refused(write: Callable[..., Path]) -> None:
    provider = {"id-token": _jwt(-60), "refresh-token": "r", "idp-issuer-url": "https://127.0.0.1:1"}
    write("http://127.0.0.1:1", {"auth-provider": {"name": "oidc", "config": provider}})
    with pytest.raises(NoAccess, match="set idp-certificate-authority"):
        load()


def test_a_users_token_and_password_are_sent(write: Callable[..., Path]) -> None:
    write("http://127.0.0.1:1", {"token": "t"})
    assert (log_in().scheme, log_in().token) == ("Bearer", "t")
    write("http://127.0.0.1:1", {"username": "u", "password": "p"})
    assert (log_in().scheme, log_in().token) == ("Basic", base64.b64encode(b"u:p").decode())


def _jwt(expires_in_seconds: float) -> str:
    def part(content: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")

    ends = int(datetime.datetime.now(datetime.UTC).timestamp() + expires_in_seconds)
    return f"{part({})}.{part({'exp': ends})}.{part({})}"


@pytest.mark.thorough
def test_an_oidc_token_is_renewed_at_an_issuer_with_a_checked_certificate(
    tmp_path: Path, write: Callable[..., Path]
) -> None:
    certificates = Certificates(tmp_path / "certificates")
    signed = certificates.signed("issuer")
    ended, renewed = _jwt(-60), _jwt(3600)
    asked: list[str] = []

    async def discovery(request: web.Request) -> web.Response:
        return web.json_response({"token_endpoint": f"https://{request.host}/token"})

    async def token(request: web.Request) -> web.Response:
        asked.append(str((await request.post())["refresh_token"]))
        return web.json_response(
            {"id_token": renewed, "refresh_token": "next", "access_token": "a", "token_type": "Bearer"}
        )

    async def scenario() -> None:
        application = web.Application()
        application.router.add_get("/.well-known/openid-configuration", discovery)
        application.router.add_post("/token", token)
        runner = web.AppRunner(application)
        await runner.setup()
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(signed)
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        issuer = f"https://127.0.0.1:{runner.addresses[0][1]}"
        provider = {
            "id-token": ended,
            "refresh-token": "given",
            "client-id": "odradek",
            "client-secret": "secret",
            "idp-issuer-url": issuer,
            "idp-certificate-authority-data": base64.b64encode(certificates.authority.read_bytes()).decode(),
        }
        path = write("http://127.0.0.1:1", {"auth-provider": {"name": "oidc", "config": provider}})
        info = await asyncio.to_thread(log_in)
        assert (info.scheme, info.token) == ("Bearer", renewed)
        assert asked == ["given"]
        kept = read_document(path.read_text())["users"][0]["user"]["auth-provider"]["config"]
        assert (kept["id-token"], kept["refresh-token"]) == (renewed, "next")
        await runner.cleanup()

    asyncio.run(scenario())
