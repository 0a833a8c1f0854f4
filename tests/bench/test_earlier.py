"""A comparison with an earlier checkout runs that checkout's broker."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.peers import EARLIER, earlier
from tests.support.broker_process import CHECKOUT


def test_the_broker_is_that_of_the_checkout(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    os.symlink(CHECKOUT / "broker", checkout / "broker")
    broker = earlier(checkout)(tmp_path)
    assert broker.name == EARLIER
    broker.start()
    try:
        environment = Path(f"/proc/{broker.pid}/environ").read_bytes().split(b"\0")
        assert f"PYTHONPATH={checkout / 'broker'}".encode() in environment
    finally:
        broker.close()


def test_a_folder_that_is_no_checkout_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["bench", "--earlier", str(tmp_path)])
    with pytest.raises(SystemExit):
        main()
    assert f"{tmp_path} is no checkout of Odradek: it has no broker/odradek" in capsys.readouterr().err
