"""The pages in a real Chromium: each shows what there is, markup stays text, and a change is made by the forms.

`ODRADEK_SCREENSHOTS=docs/images` writes the pictures of docs/console.md.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from odradek.client.admin.topics import TopicAdmin
from odradek.client.producer.producer import Producer
from tests.console.login_world import PASSWORDS, LoginConsole, make_broker, make_login, run_logins
from tests.console.login_world import prepare as prepare_rights
from tests.console.viewer import Viewer, make_source, run, with_changes
from tests.support.broker_process import Broker
from tests.support.chromium import Tab, chromium, find_chromium
from tests.support.local_process import running
from tests.support.polling import eventually
from tests.support.tokens import Provider

pytestmark = [pytest.mark.integration, pytest.mark.thorough]

MARKUP = "<img src=x onerror=alert(1)>"


@pytest.fixture(autouse=True)
def a_browser_is_there() -> None:
    if find_chromium() is None:
        pytest.skip("there is no Chromium on this machine: `apt-get install chromium` brings it")


async def prepare(viewer: Viewer) -> None:
    await viewer.make_topic("orders", partitions=3)
    await viewer.make_topic("payments", [b"1"])
    async with Producer(viewer.client) as producer:
        for number in range(60):
            order = {"id": number, "drink": "tea" if number % 3 else "coffee", "price": 2.50}
            await producer.send("orders", json.dumps(order).encode(), key=b"customer-%d" % (number % 7))
        await producer.send("orders", f"{MARKUP}\u202e".encode(), key=MARKUP.encode(), partition=0)
        await producer.send("orders", bytes(range(64)), partition=0)
        await producer.flush()
    await viewer.commit("billing", "orders", 5)
    await viewer.commit(MARKUP, "orders", 1)


async def photograph(tab: Tab, name: str, *, width: int = 1200, height: int = 800) -> None:
    if folder := os.environ.get("ODRADEK_SCREENSHOTS"):
        await tab.photograph(Path(folder, f"console-{name}.png"), width=width, height=height)


async def fill(tab: Tab, label: str, value: str) -> None:
    """Type into the control with a label, as far as the page can see."""
    await tab.run(f"""(() => {{
      const label = [...document.querySelectorAll('label')].find(
        (one) => one.firstChild.textContent === {json.dumps(label)} && one.checkVisibility());
      const control = label.querySelector('input, textarea, select');
      control.value = {json.dumps(value)};
      control.dispatchEvent(new Event('input', {{bubbles: true}}));
      control.dispatchEvent(new Event('change', {{bubbles: true}}));
    }})()""")


async def press(tab: Tab, words: str) -> None:
    """Click on the visible button, link or title of a part with these words, once it can be."""
    script = f"""(() => {{
      const found = [...document.querySelectorAll('button, a, summary')].find(
        (one) => one.textContent === {json.dumps(words)} && !one.disabled && one.checkVisibility());
      if (found) found.click();
      return Boolean(found);
    }})()"""
    await eventually(f"{words!r} can be pressed", lambda: tab.run(script))


def test_each_page_shows_what_there_is(tmp_path: Path) -> None:
    with running(Broker(tmp_path / "broker")) as broker:
        run(broker.bootstrap, lambda viewer: look_at_each_page(viewer, tmp_path))


async def look_at_each_page(viewer: Viewer, folder: Path) -> None:
    await prepare(viewer)
    async with chromium(folder) as tab:
        await tab.open(f"{viewer.server.url}/")
        await tab.await_text("Who leads what")
        await tab.await_text("leads 3, follows 0")
        await tab.await_text("group billing has no members")
        await photograph(tab, "overview")

        await press(tab, "Topics")
        await tab.await_text("billing lag")
        await photograph(tab, "topics")
        await press(tab, "orders")
        shown = await tab.await_text("First offset")
        assert "all in sync" in shown and MARKUP in shown

        await press(tab, "Look at its records")
        await tab.await_text('"drink":')
        shown = await tab.await_text("<U+202E>")
        assert MARKUP in shown and "00000000  00 01 02" in shown
        await press(tab, "Search the whole topic")
        await fill(tab, "Text", "COFFEE")
        await press(tab, "Search")
        assert "20 matches in 62 records" in await tab.await_text("The whole topic was read.")
        await photograph(tab, "search")

        await press(tab, "Follow new records")
        await press(tab, "Follow")
        await eventually("it follows", lambda: viewer.cluster.slots.tails.taken, lambda taken: taken == 1)
        await viewer.produce("orders", b"quite new")
        await tab.await_text("quite new")

        await press(tab, "Groups")
        await eventually("the tail ends", lambda: viewer.cluster.slots.tails.taken, lambda taken: taken == 0)
        await tab.await_text(MARKUP)
        await press(tab, MARKUP)
        await tab.await_text("It has no members now.")
        assert await tab.run("document.title") == f"Group {MARKUP} - Odradek console"
        assert await tab.run("document.images.length") == 0
        await press(tab, "Administration")
        await tab.await_text("No replica moves.")
        await tab.await_text("No user has a password")
        await tab.await_text("authorizer")
        await photograph(tab, "administration")
        await press(tab, "Overview")
        await tab.await_text("Who leads what")
        # A broker without an authorizer refuses what is about rights, and the page says so.
        assert [one for one in tab.complaints if "/api/rights" not in one] == []
        await photograph(tab, "phone", width=390, height=800)


@with_changes
async def test_a_change_is_previewed_and_made(viewer: Viewer, unique: str, tmp_path: Path) -> None:
    async with chromium(tmp_path) as tab:
        await tab.open(f"{viewer.server.url}/#/topics")
        await press(tab, "Make a topic")
        await fill(tab, "Name", unique)
        await fill(tab, "Partitions (default: the broker's)", "2")
        await press(tab, "Preview")
        shown = await tab.await_text("Nothing is changed yet.")
        assert f"odradek topics create {unique} --partitions 2" in shown
        assert unique not in {topic.name for topic in await TopicAdmin(viewer.client).list()}
        await press(tab, "Do it")
        await tab.await_text("Done. The same at a terminal:")
        assert len((await TopicAdmin(viewer.client).describe(unique)).partitions) == 2
        assert tab.complaints == []


@with_changes
async def test_an_error_is_said_on_the_page(viewer: Viewer, unique: str, tmp_path: Path) -> None:
    async with chromium(tmp_path) as tab:
        await tab.open(f"{viewer.server.url}/#/topic?topic={unique}")
        await tab.await_text(f"there is no topic '{unique}'")
        await tab.open(f"{viewer.server.url}/#/records?topic={unique}&partition=x")
        await tab.await_text("partition has to be a whole number")


def test_pages_of_each_cluster_have_an_address(tmp_path: Path) -> None:
    async def story(viewer: Viewer) -> None:
        await viewer.make_topic("only-here", [b"a record"])
        async with chromium(tmp_path) as tab:
            await tab.open(viewer.server.url)
            await tab.await_text("all clusters")
            await tab.await_text("healthy")
            await photograph(tab, "clusters", height=280)
            assert not await tab.run("document.querySelector('#pages a').checkVisibility()")
            await press(tab, "cluster")
            await tab.await_text("Who leads what")
            await press(tab, "Topics")
            await tab.await_text("only-here")
            assert await tab.run("location.hash") == "#/clusters/cluster/topics"
            assert await tab.run("document.title") == "Topics of cluster - Odradek console"
            await fill(tab, "Cluster", "second")
            await press(tab, "Go")
            await tab.await_text("There is no such topic.")
            assert await tab.run("location.hash") == "#/clusters/second/topics"
            # An address that was sent to others.
            await tab.open("about:blank")
            await tab.open(f"{viewer.server.url}/#/clusters/cluster/records?topic=only-here")
            await tab.await_text("a record")
            await press(tab, "Odradek console")
            await tab.await_text("all clusters")
            assert tab.complaints == []

    with running(Broker(tmp_path / "first")) as first, running(Broker(tmp_path / "second")) as second:
        run(first.bootstrap, story, others=[make_source(second.bootstrap, "second")])


def test_a_viewer_logs_in_and_out_by_the_page(tmp_path: Path) -> None:
    async def story(console: LoginConsole) -> None:
        async with chromium(tmp_path) as tab:
            await tab.open(f"{console.server.url}/#/records?topic=open")
            await tab.await_text("Log in as a user of this cluster.")
            await photograph(tab, "login")
            await fill(tab, "User", "alice")
            await fill(tab, "Password", "wrong")
            await press(tab, "Log in")
            await tab.await_text("refuses this name with this password")
            await fill(tab, "Password", PASSWORDS["alice"])
            await press(tab, "Log in")
            # The page that was asked for, and no script can read the session.
            await tab.await_text("in open")
            assert await tab.run("document.cookie") == ""
            await press(tab, "Topics")
            assert "closed" not in await tab.await_text("open")
            await tab.open("about:blank")
            await tab.open(f"{console.server.url}/#/topics")
            await tab.await_text("Log out alice")
            await press(tab, "Log out alice")
            await tab.await_text("Log in as a user of this cluster.")
            assert len(console.logins.sessions) == 0

    with running(make_broker(tmp_path / "broker", Provider())) as broker:
        asyncio.run(prepare_rights(broker))
        run_logins([make_login(tmp_path, broker)], story)
