"""Files of saved offsets: what is written is read again, and what cannot be read is said with its line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click
import pytest

from odradek.cli.groups.saved_offsets import SavedOffset, load, save

SAVED = [
    SavedOffset("g", "orders", 0, 42, 3, "note"),
    SavedOffset("g", "orders", 1, None),
    SavedOffset('h, "quoted"\nline', "orders", 1, 2**63 - 1),
]


def test_json_goes_round_with_everything(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    assert save(str(path), SAVED) == 0
    assert load(str(path)) == SAVED
    document = json.loads(path.read_text())
    assert (document["format"], document["version"]) == ("odradek-offsets", 1)
    assert path.stat().st_mode & 0o777 == 0o600


def test_csv_goes_round_without_what_it_has_no_field_for(tmp_path: Path) -> None:
    path = tmp_path / "offsets.csv"
    assert save(str(path), SAVED) == 1
    assert load(str(path)) == [one._replace(leader_epoch=-1, metadata="") for one in SAVED if one.offset]
    only = tmp_path / "one-group.CSV"
    save(str(only), SAVED[:2])
    assert only.read_text() == "orders,0,42\n"
    assert load(str(only)) == [SavedOffset(None, "orders", 0, 42)]


def test_another_file_is_never_written_over(tmp_path: Path) -> None:
    for name in ("offsets", "offsets.csv"):
        path = str(tmp_path / name)
        save(path, SAVED)
        save(path, SAVED)  # after a dry run that saved the same
        before = Path(path).read_bytes()
        with pytest.raises(FileExistsError, match="name a new one"):
            save(path, [SAVED[0]._replace(offset=1)])
        assert Path(path).read_bytes() == before


def test_a_file_is_synced_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "offsets"
    seen: list[bool] = []
    sync = os.fsync

    def noting(descriptor: int) -> None:
        seen.append(path.exists())
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    save(str(path), SAVED)
    assert seen == [False, True], "the file, then the directory"


def test_a_disk_that_refuses_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device; no offset was changed"):
        save(str(tmp_path / "offsets"), SAVED)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OSError, match="No such file"):
        save(str(tmp_path / "nowhere" / "offsets"), SAVED)


def entry(**changed: object) -> bytes:
    one = {"group": "g", "topic": "t", "partition": 0, "offset": 1} | changed
    return json.dumps({"format": "odradek-offsets", "version": 1, "offsets": [one]}).encode()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "holds no offsets"),
        (b"\n\n", "holds no offsets"),
        (b"topic,partition,offset\n", "line 1: 'partition' is not a partition"),
        (b"t,0,1\nt,1,x\n", "line 2: 'x' is not an offset"),
        (b"t,0,-1\n", "line 1: '-1' is not an offset"),
        (b"t,0,9223372036854775808\n", "is not an offset"),
        (b"t,2147483648,1\n", "is not a partition"),
        (b"t,0\n", "line 1: 2 fields"),
        (b"t,0,1\ng,t,0,1\n", "line 2: 4 fields"),
        (b",0,1\n", "is empty"),
        (b",t,0,1\n", "is empty"),
        (b"t,0,1\nt,0,2\n", "t-0 is in it twice"),
        (b'"t,0,1\n', "line 1: unexpected end of data"),
        (b"\xff,0,1\n", "not UTF-8"),
        (b"{", "not valid JSON"),
        (b"{}", "not a file of --save"),
        (entry().replace(b"1, ", b"2, ", 1), "version 2"),
        (entry(offset="1"), "entry 1: '1' is not an offset"),
        (entry(offset=-1), "entry 1: -1 is not an offset"),
        (entry(offset=True), "True is not an offset"),
        (entry(partition=None), "None is not a partition"),
        (entry(topic=""), "needs a topic"),
        (entry(group=1), "needs a topic, and a group"),
        (entry(metadata=1), "metadata is text"),
        (b'{"format": "odradek-offsets", "version": 1, "offsets": [1]}', "1 is not an object"),
        (b'{"a":' * 100_000, "not valid JSON"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "offsets"
    path.write_bytes(content)
    with pytest.raises(click.UsageError) as failure:
        load(str(path))
    assert f"--from-file {path}" in failure.value.message
    assert words in failure.value.message


def test_a_missing_offset_is_not_taken_for_null(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    path.write_bytes(entry().replace(b', "offset": 1', b""))
    with pytest.raises(click.UsageError, match="is not an offset"):
        load(str(path))


def test_a_byte_order_mark_and_windows_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "offsets.csv"
    path.write_bytes(b'\xef\xbb\xbf"t",0,1\r\n t , 1 , 2\r\n')
    assert load(str(path)) == [SavedOffset(None, "t", 0, 1), SavedOffset(None, "t", 1, 2)]
