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


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ([], "is no checkout of Odradek: it has no broker/odradek"),
        (["--only", "tiny", "tls"], "tls cannot be asked of an earlier checkout"),
        (["growth"], "growth knows no earlier checkout; leave the program out"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    given: list[str],
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["bench", *given, "--earlier", str(tmp_path)])
    with pytest.raises(SystemExit):
        main()
    assert reason in capsys.readouterr().err
