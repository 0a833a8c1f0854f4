"""What a broker leaves to the thread for long work."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.broker.replication.blocking import BlockingWork


def where_called(monkeypatch: pytest.MonkeyPatch, module: object, name: str) -> list[bool]:
    """Whether each call of a function ran in the thread. A broker must start after this."""
    calls: list[bool] = []
    running: list[object] = []
    submit, function = BlockingWork.submit, getattr(module, name)

    def submitted(self: BlockingWork, work: Any) -> Any:
        def run() -> Any:
            running.append(work)
            try:
                return work()
            finally:
                running.pop()

        return submit(self, run)

    def called(*arguments: Any, **named: Any) -> Any:
        calls.append(bool(running))
        return function(*arguments, **named)

    monkeypatch.setattr(BlockingWork, "submit", submitted)
    monkeypatch.setattr(module, name, called)
    return calls
