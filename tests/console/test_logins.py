"""Viewers that log in as users of the cluster: each has that user's rights, and none has another's session."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.console.http.cluster_pages import HANDLERS
from odradek.foundation.console_limits import CONSOLE_TRIES_OF_USER_FREE
from tests.console.login_world import (
    PASSWORDS,
    Browser,
    LoginConsole,
    make_broker,
    make_login,
    prepare,
    run_logins,
)
from tests.support.broker_process import SecuredBroker, free_port
from tests.support.tokens import Provider

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    broker = make_broker(tmp_path_factory.mktemp("logins"), Provider())
    try:
        broker.start()
        asyncio.run(prepare(broker))
        yield broker
    finally:
        broker.close()


def names(document: dict[str, list[dict[str, str]]]) -> set[str]:
    return {row["name"] for row in document["rows"]}


def test_nothing_is_answered_without_a_login(secured: SecuredBroker, tmp_path: Path) -> None:
    async def story(console: LoginConsole) -> None:
        async with console.browser() as browser:
            about = await browser.get("about")
            assert about["clusters"] == [
                {"name": "users", "bootstrap": "", "login": "password", "user": None}
            ]
            for path in HANDLERS:
                refusal = await browser.get(path, topic="open", text="x", group="g", status=401)
                assert refusal == {"error": "log in at cluster users first", "login": "users"}
            await browser.post("actions/create-topic", topic="t", status=401)
            assert (await browser.get("clusters"))["clusters"] == [{"name": "users", "login": True}]
            async with browser.session.get(f"{console.server.url}/") as page:
                assert page.status == 200 and "Set-Cookie" not in page.headers
            await browser.log_in("alice", "wrong", status=401)
            await browser.get("topics", status=401)

    run_logins([make_login(tmp_path, secured)], story, may_change=True)


def test_each_viewer_has_the_rights_of_his_user(secured: SecuredBroker, tmp_path: Path) -> None:
    async def story(console: LoginConsole) -> None:
        async with console.browser() as alice, console.browser() as root:
            assert await alice.log_in("alice") == {"user": "alice"}
            await root.log_in("root")
            assert (await alice.get("about"))["clusters"][0]["user"] == "alice"
            assert (await alice.get("about"))["clusters"][0]["bootstrap"] == secured.bootstraps["USERS"]
            assert names(await alice.get("topics")) == {"open"}
            assert names(await root.get("topics")) >= {"open", "closed"}
            assert names(await alice.get("topics")) == {"open"}
            page = await alice.get("records", topic="open")
            assert [one["value"]["text"] for one in page["records"]] == ["in open"]
            for path in ("records", "tail", "search", "topic", "settings"):
                refusal = await alice.get(path, topic="closed", text="in", status=path_status(path))
                assert "in closed" not in str(refusal)
            page = await root.get("records", topic="closed")
            assert [one["value"]["text"] for one in page["records"]] == ["in closed"]
            await alice.get("rights", status=403)
            await root.get("rights")

    run_logins([make_login(tmp_path, secured)], story)


def path_status(path: str) -> int:
    """What a topic that may not be described is to each page: refused, or not there."""
    return 404 if path == "topic" else 403


def test_changes_are_made_with_own_rights_and_logged(
    secured: SecuredBroker, tmp_path: Path, unique: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(console: LoginConsole) -> None:
        async with console.browser() as alice, console.browser() as root:
            await alice.log_in("alice")
            await root.log_in("root")
            await alice.post("actions/create-topic", topic=unique, partitions=1, status=403)
            made = await root.post("actions/create-topic", topic=unique, partitions=1)
            assert made["done"] and "--command-config my.properties" in made["command"]
        assert "'alice' from 127.0.0.1 did" not in caplog.text
        assert f"'root' from 127.0.0.1 did create topic {unique!r}" in caplog.text
        assert not any(password in caplog.text for password in PASSWORDS.values())

    with caplog.at_level(logging.DEBUG, logger="odradek"):
        run_logins([make_login(tmp_path, secured)], story, may_change=True)


def cookie_of(browser: Browser) -> str:
    (found,) = browser.session.cookie_jar
    return found.value


def test_a_session_is_a_cookie_that_scripts_and_other_sites_have_not(
    secured: SecuredBroker, tmp_path: Path
) -> None:
    async def story(console: LoginConsole) -> None:
        async with console.browser() as alice, console.browser() as thief:
            _, headers = await alice.post_raw("login", user="alice", password=PASSWORDS["alice"])
            port = console.server.url.rpartition(":")[2]
            name, _, rest = headers["Set-Cookie"].partition("=")
            assert name == f"odradek-console-{port}"
            assert {one.strip() for one in rest.split(";")[1:]} == {"HttpOnly", "Path=/", "SameSite=Strict"}
            first = cookie_of(alice)
            await alice.log_in("alice")
            second = cookie_of(alice)
            assert first != second and len(second) >= 43

            async def steal(value: str) -> int:
                cookies = {"Cookie": f"{name}={value}"}
                async with thief.session.get(f"{console.server.url}/api/topics", headers=cookies) as answer:
                    return answer.status

            assert [await steal(value) for value in (first, "", second[:-1], second)] == [401, 401, 401, 200]
            for site in ("cross-site", "same-site"):
                headers = {"Cookie": f"{name}={second}", "Sec-Fetch-Site": site}
                async with thief.session.get(f"{console.server.url}/api/topics", headers=headers) as answer:
                    assert answer.status == 403
            _, headers = await alice.post_raw("logout")
            assert "Max-Age=0" in headers["Set-Cookie"]
            assert await steal(second) == 401 and len(console.logins.sessions) == 0
            await alice.get("topics", status=401)

    run_logins([make_login(tmp_path, secured)], story)


def test_behind_tls_a_cookie_is_secure_and_of_this_host(secured: SecuredBroker, tmp_path: Path) -> None:
    async def story(console: LoginConsole) -> None:
        async with console.browser() as alice:
            _, headers = await alice.post_raw("login", user="alice", password=PASSWORDS["alice"])
            name, _, rest = headers["Set-Cookie"].partition("=")
            assert name.startswith("__Host-odradek-console-")
            assert {"Secure", "HttpOnly", "Path=/", "SameSite=Strict"} <= {
                one.strip() for one in rest.split(";")
            }
            asked = {"Host": "console.example.org"}
            async with alice.session.get(f"{console.server.url}/api/about", headers=asked) as answer:
                assert answer.status == 200

    run_logins([make_login(tmp_path, secured)], story, url="https://console.example.org")


def test_tries_are_slowed_down_and_a_right_one_is_not_let_in(secured: SecuredBroker, tmp_path: Path) -> None:
    async def story(console: LoginConsole) -> None:
        async with console.browser() as browser:
            for _ in range(CONSOLE_TRIES_OF_USER_FREE):
                refusal = await browser.log_in("alice", "wrong", status=401)
                assert "refuses this name with this password" in refusal["error"]
            refusal, headers = await browser.post_raw(
                "login", status=429, user="alice", password=PASSWORDS["alice"]
            )
            assert int(headers["Retry-After"]) == 1 and "Set-Cookie" not in headers
            assert "try again in 1 s" in refusal["error"]
            await browser.log_in("root")

    run_logins([make_login(tmp_path, secured)], story)


def test_what_can_be_no_login_is_refused(secured: SecuredBroker, tmp_path: Path) -> None:
    away = f"127.0.0.1:{free_port()}"

    async def story(console: LoginConsole) -> None:
        async with console.browser() as browser:
            for user, password in (("alice\0root", "x"), ("alice", "x\0y"), ("a" * 2_000, "x")):
                await browser.log_in(user, password, status=400, cluster="users")
            await browser.post("login", status=400, user="alice", cluster="users")
            await browser.post("login", status=400, user="alice", password="x", admin=True, cluster="users")
            await browser.log_in("alice", status=404)
            await browser.log_in("alice", cluster="other", status=404)
            refusal = await browser.log_in("alice", cluster="away", status=503)
            assert away not in refusal["error"]
            # A login at one cluster is none at another.
            await browser.log_in("alice", cluster="users")
            await browser.get("topics", status=200, cluster="users")
            await browser.get("topics", status=401, cluster="away")
            rows = (await browser.get("clusters"))["clusters"]
            assert [one["name"] for one in rows] == ["users", "away"] and rows[1] == {
                "name": "away",
                "login": True,
            }

    run_logins([make_login(tmp_path, secured), make_login(tmp_path, secured, "away", bootstrap=away)], story)


def test_a_session_that_ends_closes_what_it_reads(secured: SecuredBroker, tmp_path: Path) -> None:
    async def story(console: LoginConsole) -> None:
        async with console.browser() as alice:
            await alice.log_in("alice")
            login = console.logins.sessions.find_login(cookie_of(alice), "users")
            assert login is not None
            url = f"{console.server.url}/api/tail?topic=open"
            async with alice.session.get(url) as tail:
                assert tail.status == 200
                await tail.content.readline()
                assert login.cluster.slots.tails.taken == 1
                await alice.post("logout")
                assert b"event: failed" in await tail.read()
            assert login.cluster.slots.tails.taken == 0 and login.cluster.tasks.is_closed

    run_logins([make_login(tmp_path, secured)], story)
