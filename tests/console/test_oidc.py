"""Logins by an identity provider: the viewer's token is the login at the brokers, and no forged answer is taken."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from yarl import URL

from odradek.console.oidc import OidcProvider, OidcRefusedError, ProviderFailedError
from odradek.foundation.console_limits import CONSOLE_OIDC_SECONDS_MAX, CONSOLE_OIDC_WAITING_MAX
from tests.console.identity_provider import CLIENT_SECRET, IdentityProvider, served_provider
from tests.console.login_world import Browser, LoginConsole, make_broker, make_login, prepare, run_logins
from tests.support.broker_process import SecuredBroker
from tests.support.stories import told_by
from tests.support.tokens import Provider

REDIRECT = "https://console.example/login/done"


class Clock:
    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


Story = Callable[[OidcProvider, IdentityProvider, Clock], Awaitable[None]]


def run_provider(story: Story) -> None:
    async def main() -> None:
        async with served_provider(Provider("first", "second")) as identity:
            clock = Clock()
            await story(OidcProvider(identity.settings(REDIRECT), now=clock), identity, clock)

    asyncio.run(main())


with_provider = told_by(run_provider, gives=3)


@with_provider
async def test_a_browser_that_comes_back_is_known(
    oidc: OidcProvider, identity: IdentityProvider, clock: Clock
) -> None:
    url, browser = await oidc.begin("c")
    back = identity.authorize(url)
    identity.identity = {"preferred_username": "ann@example.org"}
    login = await oidc.finish(browser=browser, **back)
    assert (login.cluster, login.user, login.life_seconds) == ("c", "ann@example.org (alice)", 600.0)
    assert browser not in url and CLIENT_SECRET not in url
    form, basic = identity.forms[0], identity.logins[0]
    assert form["redirect_uri"] == REDIRECT and form["code_verifier"] not in url
    assert basic == "Basic " + base64.b64encode(b"the%20console:a%3Asecret%2Fof%20it").decode()
    assert login.access_token not in repr(login) and CLIENT_SECRET not in repr(oidc.settings)
    with pytest.raises(OidcRefusedError, match="begin again"):
        await oidc.finish(browser=browser, **back)


@with_provider
async def test_another_browser_and_a_late_one_are_refused(
    oidc: OidcProvider, identity: IdentityProvider, clock: Clock
) -> None:
    for wrong in ("", "other", "\udcff"):
        url, _ = await oidc.begin("c")
        with pytest.raises(OidcRefusedError, match="begun by another browser"):
            await oidc.finish(browser=wrong, **identity.authorize(url))
    url, browser = await oidc.begin("c")
    with pytest.raises(OidcRefusedError):
        await oidc.finish(browser=browser, **{**identity.authorize(url), "state": "x"})
    clock.seconds += CONSOLE_OIDC_SECONDS_MAX
    with pytest.raises(OidcRefusedError, match="too long ago"):
        await oidc.finish(browser=browser, **identity.authorize(url))
    url, browser = await oidc.begin("c")
    for _ in range(CONSOLE_OIDC_WAITING_MAX):
        await oidc.begin("c")
    with pytest.raises(OidcRefusedError):
        await oidc.finish(browser=browser, **identity.authorize(url))
    assert identity.forms == []


@with_provider
async def test_an_id_token_that_does_not_fit_is_refused(
    oidc: OidcProvider, identity: IdentityProvider, clock: Clock
) -> None:
    for claims in (
        {"nonce": "other"},
        {"nonce": None},
        {"nonce": 5},
        {"aud": "another console"},
        {"aud": None},
        {"iss": "https://other.example"},
        {"life_seconds": -3_600.0},
        {"iat": None},
        {"sub": ""},
        {"azp": "another console"},
    ):
        url, browser = await oidc.begin("c")
        identity.identity = claims
        with pytest.raises(OidcRefusedError, match="the ID token is"):
            await oidc.finish(browser=browser, **identity.authorize(url))


@with_provider
async def test_a_token_of_other_keys_or_of_none_is_refused(
    oidc: OidcProvider, identity: IdentityProvider, clock: Clock
) -> None:
    stranger = Provider("first", "rsa")
    url, browser = await oidc.begin("c")
    back = identity.authorize(url)
    nonce = url.partition("nonce=")[2].partition("&")[0]
    forged = stranger.token(iss=identity.issuer, aud="the console", nonce=nonce)
    identity.answer = {"token": {"id_token": forged}}
    with pytest.raises(OidcRefusedError, match="refused"):
        await oidc.finish(browser=browser, **back)
    for token in ("", "a.b.c", "eyJhbGciOiJub25lIn0.e30.", 5, None):
        url, browser = await oidc.begin("c")
        identity.answer = {"token": {"id_token": token}}
        with pytest.raises((OidcRefusedError, ProviderFailedError)):
            await oidc.finish(browser=browser, **identity.authorize(url))


@with_provider
async def test_a_new_key_of_the_provider_is_found(
    oidc: OidcProvider, identity: IdentityProvider, clock: Clock
) -> None:
    async def log_in() -> str:
        url, browser = await oidc.begin("c")
        return (await oidc.finish(browser=browser, **identity.authorize(url))).user

    assert await log_in() == "alice"
    identity.provider.add("third")
    identity.key_id = "third"
    clock.seconds += 60
    assert await log_in() == "alice"


@with_provider
async def test_a_provider_that_answers_wrongly_is_named(
    oidc: OidcProvider, identity: IdentityProvider, clock: Clock
) -> None:
    for discovery, words in (
        ({"issuer": "https://other.example"}, "says that its issuer is"),
        ({"token_endpoint": None}, "has no token_endpoint"),
        ({"jwks_uri": "file:///etc/passwd"}, "has no jwks_uri"),
    ):
        identity.answer = {"discovery": discovery}
        with pytest.raises(ProviderFailedError, match=words):
            await oidc.begin("c")
    identity.answer = {}
    for token in ({"access_token": None}, {"access_token": "a b"}, {"access_token": "x\ny"}):
        url, browser = await oidc.begin("c")
        identity.answer = {"token": token}
        with pytest.raises(ProviderFailedError, match="no access token"):
            await oidc.finish(browser=browser, **identity.authorize(url))
    url, browser = await oidc.begin("c")
    with pytest.raises(ProviderFailedError, match="HTTP status 400"):
        await oidc.finish(browser=browser, **{**identity.authorize(url), "code": "guessed"})


# --- in a console ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def provider() -> Provider:
    return Provider("first")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, provider: Provider) -> Iterator[SecuredBroker]:
    broker = make_broker(tmp_path_factory.mktemp("oidc"), provider)
    try:
        broker.start()
        asyncio.run(prepare(broker))
        yield broker
    finally:
        broker.close()


def run_with_provider(
    secured: SecuredBroker,
    provider: Provider,
    folder: Path,
    story: Callable[[LoginConsole, IdentityProvider], Awaitable[None]],
) -> None:
    """A console at whose only cluster tokens are taken."""
    source = make_login(
        folder, secured, "tokens", bootstrap=secured.bootstraps["TOKENS"], mechanism="OAUTHBEARER"
    )

    async def main(console: LoginConsole) -> None:
        async with served_provider(provider) as identity:
            console.logins.provider = OidcProvider(identity.settings(f"{console.server.url}/login/done"))
            await story(console, identity)

    run_logins([source], main)


async def open_page(browser: Browser, path: str, **headers: str) -> tuple[int, Any, str]:
    """What a browser that goes to an address is answered: status, headers, text."""
    url = URL(f"{browser.server.url}{path}", encoded=True)
    async with browser.session.get(url, headers=headers, allow_redirects=False) as answer:
        return answer.status, answer.headers, await answer.text()


@pytest.mark.integration
def test_a_viewer_of_the_provider_has_the_rights_of_his_token(
    secured: SecuredBroker, provider: Provider, tmp_path: Path
) -> None:
    async def story(console: LoginConsole, identity: IdentityProvider) -> None:
        async with console.browser() as alice:
            assert (await alice.get("about"))["clusters"][0]["login"] == "provider"
            await alice.log_in("alice", "x", status=400)
            status, headers, _ = await open_page(alice, "/login?cluster=tokens")
            assert status == 303
            for flag in ("HttpOnly", "SameSite=Lax", "Path=/login"):
                assert flag in headers["Set-Cookie"]
            back = URL("/login/done").with_query(identity.authorize(headers["Location"]))
            status, headers, _ = await open_page(alice, str(back), **{"Sec-Fetch-Site": "cross-site"})
            assert (status, headers["Location"]) == (303, "/")
            kept = [one for one in headers.getall("Set-Cookie") if "SameSite=Strict" in one]
            assert len(kept) == 1 and "HttpOnly" in kept[0]
            assert (await alice.get("about"))["clusters"][0]["user"] == "alice"
            assert [one["name"] for one in (await alice.get("topics"))["rows"]] == ["open"]
            page = await alice.get("records", topic="open")
            assert [one["value"]["text"] for one in page["records"]] == ["in open"]

    run_with_provider(secured, provider, tmp_path, story)


@pytest.mark.integration
def test_what_is_forged_on_the_way_opens_no_session(
    secured: SecuredBroker, provider: Provider, tmp_path: Path
) -> None:
    async def story(console: LoginConsole, identity: IdentityProvider) -> None:
        async with console.browser() as alice, console.browser() as victim:
            status, _, _ = await open_page(alice, "/login", **{"Sec-Fetch-Site": "cross-site"})
            assert status == 403
            _, headers, _ = await open_page(alice, "/login")
            back = str(URL("/login/done").with_query(identity.authorize(headers["Location"])))
            # An attacker's answer in another browser would log that one in as the attacker.
            status, headers, text = await open_page(victim, back)
            assert status == 401 and "begun by another browser" in text
            assert "SameSite=Strict" not in str(headers)
            status, _, text = await open_page(alice, "/login/done?error=access_denied&state=x")
            assert status == 401 and "access_denied" in text
            # Brokers take no token that is for others.
            _, headers, _ = await open_page(alice, "/login")
            identity.access = {"aud": "something else"}
            back = str(URL("/login/done").with_query(identity.authorize(headers["Location"])))
            status, _, text = await open_page(alice, back)
            assert status == 401 and "does not let you in" in text and "eyJ" not in text
            assert len(console.logins.sessions) == 0
            await alice.get("topics", status=401)

    run_with_provider(secured, provider, tmp_path, story)
