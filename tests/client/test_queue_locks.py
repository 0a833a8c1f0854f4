"""Ports of --admin that answer a question about locks in other ways than a broker, and what a login is sent to."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web

from odradek.client import errors
from odradek.client.admin.queue_locks import BrokerLocks, read_locks
from odradek.client.secured import HttpSecurity, http_security
from odradek.foundation.client_limits import QUEUE_LOCKS_BYTES_MAX
from odradek.foundation.errors import OdradekError
from odradek.foundation.security_errors import GroupAuthorizationFailed, SaslAuthenticationFailed
from odradek.security.authentication.credentials import Credentials
from odradek.security.authentication.oauth_documents import TokenOptions, TokenSource
from tests.support.certificates import Authority
from tests.support.stories import in_real_time

NOTHING = {"cluster_id": "c", "broker_id": 1, "truncated": False, "partitions": [], "locks": []}
OPEN = HttpSecurity(None, None)
LOGIN = Credentials("SCRAM-SHA-512", "anna", "geheim ü")
BASIC = "Basic YW5uYTpnZWhlaW0gw7w="


@dataclass
class Port:
    """A port of --admin that answers by `answers`, one after the other, and then by the last."""

    url: str = ""
    answers: list[web.Response] = field(default_factory=list)
    logins: list[str | None] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        self.logins.append(request.headers.get("Authorization"))
        self.groups.append(request.query["group"])
        if not self.answers:
            await asyncio.sleep(60)
        return self.answers.pop(0)

    async def ask(
        self, security: HttpSecurity = OPEN, *, seconds_max: float = 30
    ) -> BrokerLocks | OdradekError:
        found = await read_locks([self.url], "a b/ü", security, seconds_max=seconds_max)
        return found[self.url]


@asynccontextmanager
async def served(tls: ssl.SSLContext | None = None) -> AsyncIterator[Port]:
    port = Port()
    application = web.Application()
    application.router.add_get("/queue-locks", port.answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    port.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield port
    finally:
        await runner.cleanup()


def text(status: int, words: str, **headers: str) -> web.Response:
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    return web.Response(status=status, text=words, headers=named)


@in_real_time
async def test_an_answer_is_read() -> None:
    async with served() as port:
        port.answers = [web.json_response(NOTHING)]
        assert await port.ask() == BrokerLocks("c", 1, False, (), ())
        assert port.groups == ["a b/ü"]


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (text(400, "no"), errors.ConnectionFailed, "answers 400: no"),
        (text(401, "a login is needed"), SaslAuthenticationFailed, "logs in by https alone"),
        (text(403, "may not\nsee"), GroupAuthorizationFailed, "refuses: may not see"),
        (text(404, "404"), errors.UnsupportedByBroker, "its broker is older, or it is no broker"),
        (text(503, "it starts"), errors.ConnectionFailed, "answers 503: it starts"),
        (text(302, "there", Location="http://127.0.0.1:1"), errors.ConnectionFailed, "answers 302"),
        (text(200, "hello"), errors.ConnectionFailed, "as no broker of Odradek does"),
        (text(200, "[]"), errors.ConnectionFailed, "as no broker of Odradek does"),
        (text(200, "[" * 100_000), errors.ConnectionFailed, "as no broker of Odradek does"),
        (text(200, json.dumps({**NOTHING, "locks": [{}]})), errors.ConnectionFailed, "as no broker"),
        (text(200, " " * (QUEUE_LOCKS_BYTES_MAX + 1)), errors.ConnectionFailed, "is larger than"),
    ],
)
def test_what_is_no_answer_is_an_error(answer: web.Response, kind: type[OdradekError], words: str) -> None:
    @in_real_time
    async def story() -> None:
        async with served() as port:
            port.answers = [answer]
            found = await port.ask()
            assert type(found) is kind
            assert words in str(found) and port.url in str(found)

    story()


@in_real_time
async def test_one_port_that_says_nothing_holds_up_no_other() -> None:
    async with served() as silent, served() as port:
        port.answers = [web.json_response(NOTHING)]
        found = await read_locks([silent.url, port.url], "g", OPEN, seconds_max=0.5)
        assert type(found[silent.url]) is errors.ClientTimeout
        assert "did not answer within 0.5 s" in str(found[silent.url])
        assert found[port.url] == BrokerLocks("c", 1, False, (), ())


@in_real_time
async def test_a_login_goes_over_https_alone(tmp_path: Path) -> None:
    ours, theirs = contexts(tmp_path)
    async with served() as plain, served(theirs) as secured:
        plain.answers = [web.json_response(NOTHING)]
        secured.answers = [web.json_response(NOTHING)]
        for port in (plain, secured):
            assert isinstance(await port.ask(HttpSecurity(ours, LOGIN)), BrokerLocks)
        assert (plain.logins, secured.logins) == ([None], [BASIC])


@in_real_time
async def test_a_port_without_users_is_asked_without_a_login(tmp_path: Path) -> None:
    ours, theirs = contexts(tmp_path)
    async with served(theirs) as port:
        port.answers = [text(401, "this port has no users"), web.json_response(NOTHING)]
        assert isinstance(await port.ask(HttpSecurity(ours, LOGIN)), BrokerLocks)
        assert port.logins == [BASIC, None]
        # One with users refuses it for good.
        port.answers = [text(401, "wrong", WWW_Authenticate='Basic realm="odradek"')]
        refused = await port.ask(HttpSecurity(ours, LOGIN))
        assert type(refused) is SaslAuthenticationFailed
        assert str(refused) == f"{port.url} refuses the login: wrong"


@in_real_time
async def test_a_certificate_that_is_not_trusted_ends_it(tmp_path: Path) -> None:
    _, theirs = contexts(tmp_path)
    async with served(theirs) as port:
        refused = await port.ask()
        assert type(refused) is errors.ConnectionFailed
        assert f"TLS with {port.url} failed: " in str(refused)
        assert port.logins == []


@in_real_time
async def test_a_token_is_sent_and_a_delegation_token_is_not(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("abc.def\n")
    tokens = TokenSource(TokenOptions(path.as_uri(), "", "", ""))
    oauth = HttpSecurity(None, Credentials("OAUTHBEARER", tokens=tokens))
    assert await oauth.authorization() == "Bearer abc.def"
    delegation = Credentials("SCRAM-SHA-256", "id", "hmac", is_token=True)
    assert await HttpSecurity(None, delegation).authorization() is None
    path.unlink()
    with pytest.raises(errors.ConnectionFailed, match="the login has no token"):
        await read_locks(["https://127.0.0.1:1"], "g", oauth, seconds_max=1)


def test_the_security_of_a_client_is_that_of_its_properties() -> None:
    assert http_security({}) == OPEN
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    jaas = f'{module} required username="anna" password="geheim";'
    plain = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}
    found = http_security({"security.protocol": "SASL_PLAINTEXT", **plain})
    assert found == HttpSecurity(None, Credentials("PLAIN", "anna", "geheim"))
    assert http_security({"security.protocol": "SSL"}).tls is not None


def contexts(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """(ours, the port's)."""
    authority = Authority()
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(authority.leaf("broker").write(folder / "broker.pem"))
    return ssl.create_default_context(cafile=str(authority.write(folder / "ca.pem"))), theirs
