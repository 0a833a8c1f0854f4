"""A sync reaches the device by what the system has: Linux's fdatasync, fsync, or macOS's F_FULLFSYNC."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.foundation import syncing

FULL_SYNC = 51  # macOS's F_FULLFSYNC


class Calls:
    """Notes which of the system's calls are made; `refusal` is what F_FULLFSYNC raises."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.refusal: int | None = None

    def fsync(self, descriptor: int) -> None:
        os.fstat(descriptor)
        self.made.append("fsync")

    def fdatasync(self, descriptor: int) -> None:
        os.fstat(descriptor)
        self.made.append("fdatasync")

    def fcntl(self, descriptor: int, command: int) -> None:
        assert command == FULL_SYNC
        if self.refusal is not None:
            raise OSError(self.refusal, os.strerror(self.refusal))
        self.made.append("F_FULLFSYNC")


def as_linux(calls: Calls, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(os, "fdatasync", calls.fdatasync, raising=False)


def as_macos(calls: Calls, patch: pytest.MonkeyPatch) -> None:
    patch.delattr(os, "fdatasync", raising=False)
    patch.setattr(fcntl, "F_FULLFSYNC", FULL_SYNC, raising=False)
    patch.setattr(fcntl, "fcntl", calls.fcntl)


def as_another(calls: Calls, patch: pytest.MonkeyPatch) -> None:
    patch.delattr(os, "fdatasync", raising=False)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    noted = Calls()
    monkeypatch.setattr(os, "fsync", noted.fsync)
    return noted


@pytest.mark.parametrize(
    ("system", "of_data", "of_all"),
    [
        (as_linux, "fdatasync", "fsync"),
        (as_macos, "F_FULLFSYNC", "F_FULLFSYNC"),
        (as_another, "fsync", "fsync"),
    ],
)
def test_each_system_has_its_call(
    system: Callable[[Calls, pytest.MonkeyPatch], None],
    of_data: str,
    of_all: str,
    calls: Calls,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    system(calls, monkeypatch)
    with (tmp_path / "file").open("wb") as opened:
        syncing.sync_data(opened.fileno())
        syncing.sync(opened.fileno())
    assert calls.made == [of_data, of_all]


def test_a_file_system_without_full_syncs_gets_plain_ones(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    as_macos(calls, monkeypatch)
    calls.refusal = errno.ENOTSUP
    with (tmp_path / "file").open("wb") as opened:
        syncing.sync_data(opened.fileno())
    assert calls.made == ["fsync"]


def test_a_device_that_fails_is_no_file_system_without_full_syncs(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    as_macos(calls, monkeypatch)
    calls.refusal = errno.EIO
    with (tmp_path / "file").open("wb") as opened, pytest.raises(OSError) as raised:
        syncing.sync_data(opened.fileno())
    assert raised.value.errno == errno.EIO
    assert calls.made == []
