"""A Chromium without a window, driven by its own protocol (DevTools): pages are opened, asked, used and photographed.

The program has to be on the machine: `apt-get install chromium`. Left out: other browsers, and several windows.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp

from tests.support.polling import eventually

PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome")
_ANSWER_BYTES_MAX: Final = 64 << 20


def find_chromium() -> str | None:
    """The program, where there is one."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


class Tab:
    """One page of the browser. `complaints` are errors of scripts, and what the page's policy refused."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.complaints: list[str] = []

    async def listen(self) -> None:
        """Take answers and events until the page is closed."""
        async for message in self._socket:
            document = message.json()
            if "id" in document:
                self._waiting.pop(document["id"]).set_result(document)
            else:
                self._note(document["method"], document["params"])

    def _note(self, event: str, fields: dict[str, Any]) -> None:
        if event == "Runtime.exceptionThrown":
            self.complaints.append(str(fields["exceptionDetails"]))
        elif event == "Page.javascriptDialogOpening":
            self.complaints.append(f"a dialog opened: {fields['message']}")
        elif event == "Log.entryAdded" and fields["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{fields['entry']['text']} {fields['entry'].get('url', '')}")

    async def call(self, method: str, **fields: object) -> dict[str, Any]:
        """What the browser answers to a call of its protocol."""
        number = next(self._numbers)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": fields})
        answer = await self._waiting[number]
        assert "error" not in answer, (method, answer)
        result: dict[str, Any] = answer["result"]
        return result

    async def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        found = await self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    async def open(self, url: str) -> None:
        await self.call("Page.navigate", url=url)

    async def text(self) -> str:
        """What a person reads on the page."""
        return str(await self.run("document.body ? document.body.innerText : ''"))

    async def await_text(self, words: str) -> str:
        """The text of the page, once it has these words."""
        found = await eventually(f"the page says {words!r}", self.text, lambda text: words in text)
        return str(found)

    async def photograph(self, path: Path, *, width: int, height: int) -> None:
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        found = await self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(found["data"]))


@asynccontextmanager
async def chromium(folder: Path) -> AsyncIterator[Tab]:
    """A browser with one page; it ends with the block."""
    program = find_chromium()
    assert program is not None
    command = [
        program,
        "--headless=new",
        "--remote-debugging-port=0",
        f"--user-data-dir={folder / 'profile'}",
        "--no-sandbox",
        "--no-first-run",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "about:blank",
    ]
    with (
        (folder / "chromium.log").open("wb") as log,
        subprocess.Popen(
            command, stdout=log, stderr=log, env={"HOME": str(folder), "PATH": "/usr/bin:/bin"}
        ) as process,
    ):
        try:
            port_file = folder / "profile" / "DevToolsActivePort"
            port, _ = await eventually(
                "the browser listens",
                lambda: port_file.read_text().split("\n"),
                lambda lines: len(lines) == 2,
                not_yet=FileNotFoundError,
            )
            async with aiohttp.ClientSession() as session:
                url = f"http://127.0.0.1:{port}/json/new?about:blank"
                async with session.put(url) as answer:
                    address = (await answer.json(content_type=None))["webSocketDebuggerUrl"]
                async with session.ws_connect(address, max_msg_size=_ANSWER_BYTES_MAX) as socket:
                    tab = Tab(socket)
                    listening = asyncio.create_task(tab.listen())
                    for domain in ("Page", "Runtime", "Log"):
                        await tab.call(f"{domain}.enable")
                    try:
                        yield tab
                    finally:
                        listening.cancel()
        finally:
            process.kill()
