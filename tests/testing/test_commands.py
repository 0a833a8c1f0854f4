"""Commands to a broker under test may come a moment before it is ready for them."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace

from odradek.testing.child import Commands
from tests.support.stories import in_real_time


@in_real_time
async def test_a_command_waits_for_the_broker_to_be_ready() -> None:
    commands = Commands()
    added: list[dict[str, object]] = []
    answers: list[dict[str, object]] = []
    faults = SimpleNamespace(add=lambda **fault: added.append(fault), spare=lambda client_id: None)
    begun = threading.Event()

    def ask() -> None:
        begun.set()
        answers.append(commands._apply({"do": "fail", "api": "Fetch"}))

    asking = asyncio.get_running_loop().run_in_executor(None, ask)
    begun.wait()
    assert not answers
    commands.ready(SimpleNamespace(control=SimpleNamespace(faults=faults)))
    await asking
    assert (answers, added) == ([{}], [{"api": "Fetch"}])
