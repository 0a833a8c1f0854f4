"""A broker with users and rights, and consoles at which they log in: alice reads `open`, and root may do everything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from odradek.cli.cluster.console_logins import make_login_source
from odradek.cli.shared.connection_settings import GivenOptions, resolve_alone
from odradek.client.admin.acls import AclAdmin
from odradek.client.admin.topics import TopicAdmin
from odradek.client.client import Client
from odradek.client.producer.producer import Producer
from odradek.console.clusters import ClusterSource
from odradek.console.http.protection import CHANGE_HEADER
from odradek.console.http.server import ConsoleServer, ConsoleSettings
from odradek.console.logins import LoginSource
from odradek.console.oidc import OidcSettings
from tests.support.broker_process import SecuredBroker
from tests.support.rights import DESCRIBE, READ, TOPIC, acl
from tests.support.tokens import AUDIENCE, ISSUER, Provider

PASSWORDS = {"alice": 'al"i;ce', "root": "secret-of-root", "broker": "secret-between-brokers"}
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
CALLBACKS = "org.apache.kafka.common.security.oauthbearer"


def quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def make_broker(folder: Path, provider: Provider) -> SecuredBroker:
    """A listener for names and passwords, and one for tokens of `provider`."""
    users = " ".join(f"user_{name}={quote(password)}" for name, password in PASSWORDS.items())
    folder.mkdir(parents=True, exist_ok=True)
    return SecuredBroker(
        folder,
        kinds={"USERS": "SASL_SSL", "TOKENS": "SASL_SSL"},
        settings={
            "listener.name.users.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.users.plain.sasl.jaas.config": (
                f"{MODULE} username=broker password={PASSWORDS['broker']} {users};"
            ),
            "listener.name.tokens.sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.tokens.oauthbearer.sasl.jaas.config": f"{CALLBACKS}.OAuthBearerLoginModule required;",
            "sasl.oauthbearer.jwks.endpoint.url": provider.write(folder / "keys.json"),
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "inter.broker.listener.name": "USERS",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:broker;User:root",
        },
    )


def trust_of(broker: SecuredBroker) -> dict[str, str]:
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(broker.ca_file)}


async def prepare(broker: SecuredBroker) -> None:
    """The topics `open` and `closed` with a record each, and alice's rights at the first."""
    security = {
        "security.protocol": "SASL_SSL",
        **trust_of(broker),
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f"{MODULE} username=root password={quote(PASSWORDS['root'])};",
    }
    async with Client(broker.bootstraps["USERS"], security=security) as root, Producer(root) as producer:
        for topic in ("open", "closed"):
            await TopicAdmin(root).create(topic, partitions=1)
            await producer.send(topic, f"in {topic}".encode(), partition=0)
        await producer.flush()
        await AclAdmin(root).create([acl(READ, TOPIC, "open"), acl(DESCRIBE, TOPIC, "open")])


def make_login(
    folder: Path, broker: SecuredBroker, name: str = "users", *, bootstrap: str = "", mechanism: str = "PLAIN"
) -> LoginSource:
    """As the command has it from a file."""
    bootstrap = bootstrap or broker.bootstraps["USERS"]
    file = folder / f"{name}.properties"
    properties = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        **trust_of(broker),
    }
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    settings = resolve_alone(GivenOptions(command_config=str(file)))

    def new_client() -> Client:
        raise AssertionError("the console has no login of its own")

    return make_login_source(ClusterSource(new_client=new_client, bootstrap=bootstrap, name=name), settings)


class Browser:
    """One browser at a console: its cookies, and what its pages ask."""

    def __init__(self, server: ConsoleServer, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.session = session

    async def get(self, path: str, *, status: int = 200, **fields: object) -> Any:
        """The document at /api/PATH."""
        texts = {name: str(value) for name, value in fields.items()}
        async with self.session.get(f"{self.server.url}/api/{path}", params=texts) as answer:
            assert answer.status == status, await answer.text()
            return await answer.json()

    async def post(self, path: str, *, status: int = 200, **body: object) -> Any:
        """The answer to /api/PATH."""
        return (await self.post_raw(path, status=status, **body))[0]

    async def post_raw(self, path: str, *, status: int = 200, **body: object) -> tuple[Any, Any]:
        """The answer, and its headers."""
        headers = {CHANGE_HEADER: "1", "Sec-Fetch-Site": "same-origin"}
        async with self.session.post(f"{self.server.url}/api/{path}", json=body, headers=headers) as answer:
            assert answer.status == status, await answer.text()
            return await answer.json(), answer.headers

    async def log_in(
        self, user: str, password: str | None = None, *, status: int = 200, **more: object
    ) -> Any:
        return await self.post(
            "login", status=status, user=user, password=password or PASSWORDS[user], **more
        )


class LoginConsole:
    """A console with logins, and the browsers of its viewers."""

    def __init__(self, server: ConsoleServer) -> None:
        assert server.logins is not None
        self.server = server
        self.logins = server.logins

    @asynccontextmanager
    async def browser(self) -> AsyncIterator[Browser]:
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
            yield Browser(self.server, session)


def run_logins(
    sources: Sequence[LoginSource],
    story: Callable[[LoginConsole], Awaitable[None]],
    *,
    may_change: bool = False,
    url: str | None = None,
    oidc: OidcSettings | None = None,
) -> None:
    """Run a story with a console at whose clusters viewers log in."""

    async def main() -> None:
        settings = ConsoleSettings(
            host="127.0.0.1",
            port=0,
            clusters=[one.cluster for one in sources],
            may_change=may_change,
            logins=sources,
            url=url,
            oidc=oidc,
        )
        server = ConsoleServer(settings)
        await server.start()
        try:
            await story(LoginConsole(server))
        finally:
            await server.stop()

    asyncio.run(main())
