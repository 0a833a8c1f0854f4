"""A file with a key in it: in memory where the system has that, else in a folder of this user's, and gone after use."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from odradek.security.tls.contexts import memory_file


@pytest.fixture(params=["in memory", "in a folder"])
def folder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where temporary files are made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if request.param == "in a folder":
        monkeypatch.delattr(os, "memfd_create", raising=False)
    elif not hasattr(os, "memfd_create"):
        pytest.skip("this system has no files in memory")
    return tmp_path


def test_it_is_read_as_often_as_one_likes_by_this_user_alone(folder: Path) -> None:
    before = os.umask(0)
    try:
        with memory_file(b"secret") as path:
            assert [Path(path).read_bytes() for _ in range(2)] == [b"secret", b"secret"]
            for found in folder.rglob("*"):
                assert stat.S_IMODE(found.stat().st_mode) & 0o077 == 0
    finally:
        os.umask(before)


def test_nothing_of_it_stays(folder: Path) -> None:
    with memory_file(b"secret") as path:
        pass
    assert not Path(path).exists()
    with pytest.raises(ZeroDivisionError), memory_file(b"secret") as path:
        raise ZeroDivisionError
    assert not Path(path).exists()
    assert list(folder.rglob("*")) == []
