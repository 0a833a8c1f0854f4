"""Each page of the console, light and dark, wide and as a phone has it: axe finds no violation of WCAG 2.2 AA."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.console.login_world import LoginConsole, make_broker, make_login, run_logins
from tests.console.test_browser import a_browser_is_there, prepare
from tests.console.viewer import Viewer, run
from tests.support.broker_process import Broker
from tests.support.chromium import Tab, chromium
from tests.support.local_process import running
from tests.support.polling import eventually
from tests.support.programs import require_axe
from tests.support.tokens import Provider

pytestmark = [pytest.mark.integration, pytest.mark.thorough]
__all__ = ["a_browser_is_there"]

RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")
# A page, and words that it has once it is complete.
PAGES = (
    ("overview", "Who leads what"),
    ("topics", "orders"),
    ("topic?topic=orders", "First offset"),
    ("records?topic=orders&partition=0&start=1", '"drink":'),
    ("groups", "billing"),
    ("group?group=billing", "It has no members now."),
    ("administration", "No replica moves."),
)
SCREENS = ((1200, "light"), (1200, "dark"), (390, "light"))


def test_axe_finds_no_violation(tmp_path: Path) -> None:
    axe = require_axe()
    with running(Broker(tmp_path / "broker")) as broker:
        run(broker.bootstrap, lambda viewer: look_at_each_page(viewer, tmp_path, axe), may_change=True)


async def look_at_each_page(viewer: Viewer, folder: Path, axe: str) -> None:
    await prepare(viewer)
    found = []
    async with chromium(folder) as tab:
        for page, words in PAGES:
            await tab.open("about:blank")
            await tab.open(f"{viewer.server.url}/#/{page}")
            await tab.await_text(words)
            await tab.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
            await tab.run(axe)
            await eventually("axe is there", lambda: tab.run("typeof axe === 'object'"))
            for width, colours in SCREENS:
                await show(tab, width, colours)
                found += [f"{page} {width} {colours}: {one}" for one in await violations(tab)]
        # A page that breaks a rule is found: else the rules may not have run at all.
        await tab.run("document.querySelector('h1').append(document.createElement('img'))")
        assert any("image-alt" in one for one in await violations(tab))
    assert found == []


def test_axe_finds_no_violation_where_viewers_log_in(tmp_path: Path) -> None:
    axe = require_axe()

    async def look(console: LoginConsole) -> None:
        found = []
        async with chromium(tmp_path) as tab:
            for page, words in (("clusters", "log in first"), ("clusters/users/topics", "Password")):
                await tab.open("about:blank")
                await tab.open(f"{console.server.url}/#/{page}")
                await tab.await_text(words)
                await tab.run(axe)
                await eventually("axe is there", lambda: tab.run("typeof axe === 'object'"))
                for width, colours in SCREENS:
                    await show(tab, width, colours)
                    found += [f"{page} {width} {colours}: {one}" for one in await violations(tab)]
        assert found == []

    with running(make_broker(tmp_path / "broker", Provider())) as broker:
        run_logins([make_login(tmp_path, broker), make_login(tmp_path, broker, "others")], look)


async def show(tab: Tab, width: int, colours: str) -> None:
    await tab.call(
        "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
    )
    feature = {"name": "prefers-color-scheme", "value": colours}
    await tab.call("Emulation.setEmulatedMedia", features=[feature])


async def violations(tab: Tab) -> list[str]:
    options = {"runOnly": {"type": "tag", "values": list(RULES)}, "resultTypes": ["violations"]}
    result: dict[str, Any] = await tab.run(f"axe.run(document, {json.dumps(options)})")
    return [f"{one['id']}: {node['html'][:200]}" for one in result["violations"] for node in one["nodes"][:3]]
