"""An archive of classes is kept once it is whole."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.class_archives import keep_class_archive


def test_an_archive_is_written_once(tmp_path: Path) -> None:
    archive = tmp_path / "made" / "tool.jsa"
    written: list[Path] = []

    def write(file: Path) -> None:
        file.write_text("whole")
        written.append(file)

    for _ in range(2):
        keep_class_archive(archive, write)
    assert archive.read_text() == "whole"
    assert len(written) == 1


def test_what_a_java_that_did_not_end_has_begun_is_not_kept(tmp_path: Path) -> None:
    archive = tmp_path / "tool.jsa"

    def hang(file: Path) -> None:
        file.write_text("a part")
        raise subprocess.TimeoutExpired("java", 1)

    keep_class_archive(archive, hang)
    assert not archive.exists()
    keep_class_archive(archive, lambda file: None)  # as a Java that makes none
    assert not archive.exists()
