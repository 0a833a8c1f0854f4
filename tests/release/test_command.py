"""`make release`: what stops it changes nothing, and what it makes is a commit, a tag and files that were tried."""

from __future__ import annotations

import datetime
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import release.__main__ as command
from release import build, changelog, tryout, version
from tests.release.conftest import NEW, git, with_changes

pytestmark = pytest.mark.integration


@pytest.fixture
def green(own_copy: Path) -> Path:
    """A checkout for which .ci/run passed, with something to release."""
    with_changes(own_copy)
    passed(own_copy)
    return own_copy


def passed(checkout: Path) -> None:
    (checkout / ".cache").mkdir(exist_ok=True)
    (checkout / command.GREEN).write_text(git(checkout, "rev-parse", "HEAD") + "\n")


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Wheels that were to be tried. `test_packages` tries them: installing what they need takes a registry."""
    names: list[str] = []

    def try_all(wheels: Sequence[Path], folder: Path) -> dict[str, Path]:
        names.extend(sorted(path.name for path in wheels))
        return dict.fromkeys(("odradek", "odradek-operator", "odradek-pipeline"), tmp_path / "site")

    monkeypatch.setattr(tryout, "all_of", try_all)
    return names


@pytest.fixture
def prebuilt(monkeypatch: pytest.MonkeyPatch, built: list[Path], built_new: list[Path]) -> None:
    """Files that were built once: two more builds would take most of the test's time."""

    def copy_files(checkout: Path, target: Path, *, isolated: bool) -> list[Path]:
        target.mkdir(parents=True)
        files = built_new if version.declared(checkout) == NEW else built
        return [Path(shutil.copy2(path, target)) for path in files]

    monkeypatch.setattr(build, "packages", copy_files)


@pytest.fixture
def uploads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Twine that writes down what it is given. It stands for a registry: nothing may leave this machine."""
    fake = tmp_path / "python"
    log = tmp_path / "uploads"
    fake.write_text(
        '#!/bin/sh\ncase "$3" in\n'
        f'upload) echo "$@" >> {log}; exit ${{TWINE_EXIT_CODE:-0}};;\n'
        f'*) exec {sys.executable} "$@";;\nesac\n'
    )
    fake.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(fake))
    return log


def run(checkout: Path, *arguments: str) -> int:
    return command.main([*arguments, "--no-isolation"], checkout)


def state(checkout: Path) -> tuple[str, ...]:
    return tuple(
        git(checkout, *about) for about in (("rev-parse", "HEAD"), ("tag",), ("status", "--porcelain"))
    )


@pytest.mark.thorough
def test_a_release_is_a_commit_a_tag_and_six_files_and_nothing_is_uploaded(
    green: Path, tried: list[str], uploads: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = git(green, "rev-parse", "HEAD")
    assert run(green, NEW) == 0, capsys.readouterr().err
    assert git(green, "log", "-1", "--format=%s") == f"Release {NEW}"
    assert git(green, "rev-parse", "HEAD~1") == before
    assert git(green, "rev-parse", f"v{NEW}^{{commit}}") == git(green, "rev-parse", "HEAD")
    assert git(green, "status", "--porcelain") == ""
    assert version.declared(green) == NEW
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    assert f"\n## {NEW} ({today})\n" in (green / "CHANGELOG.md").read_text()
    files = {path.name for path in (green / "dist" / NEW).iterdir()}
    packages = {f"{name}-{NEW}" for name in ("odradek", "odradek_operator", "odradek_pipeline")}
    expected = {f"{stem}{suffix}" for stem in packages for suffix in (".tar.gz", "-py3-none-any.whl")}
    beside = {f"{name}-{NEW}.cdx.json" for name in ("odradek", "odradek-operator", "odradek-pipeline")}
    beside |= {"SHA256SUMS", f"odradek-{NEW}.tgz", f"odradek-operator-{NEW}.tgz"}
    assert files - beside == expected and len(files - expected) in (4, 6), "with charts where Helm is there"
    sums = (green / "dist" / NEW / "SHA256SUMS").read_text()
    assert {line.split()[1] for line in sums.splitlines()} == files - {"SHA256SUMS"}
    assert tried == sorted(name for name in expected if name.endswith(".whl"))
    said = capsys.readouterr().out
    assert all(name in said for name in files)
    assert (
        "Nothing was uploaded yet" in said
        and "twine upload dist/" in said
        and "git push --follow-tags" in said
    )
    assert not uploads.exists()


@pytest.mark.thorough
@pytest.mark.parametrize("code", [0, 1])
def test_upload_hands_the_six_files_to_twine_and_says_how_to_repeat_it(
    code: int,
    green: Path,
    prebuilt: None,
    tried: list[str],
    uploads: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TWINE_EXIT_CODE", str(code))
    assert run(green, NEW, "--upload") == code
    (given,) = uploads.read_text().splitlines()
    names = sorted(Path(word).name for word in given.split()[3:])
    assert len(names) == 6 and all(NEW in name and not name.endswith(".tgz") for name in names)
    said = capfd.readouterr().err
    assert ("The commit and its tag are made" in said) == (code != 0)
    assert "the checkout is as it was" not in said


@pytest.mark.thorough
def test_a_key_that_cannot_sign_stops_the_release(
    green: Path, prebuilt: None, tried: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = state(green)
    assert run(green, NEW, "--sign", str(green / "no-key")) == 1
    assert "ssh-keygen" in capsys.readouterr().err
    assert state(green) == before and not (green / "dist").exists()


@pytest.mark.thorough
def test_what_does_not_pass_its_tryout_is_not_released(
    green: Path, prebuilt: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(wheels: Sequence[Path], folder: Path) -> dict[str, Path]:
        raise tryout.TryoutError("the installed broker did not start")

    monkeypatch.setattr(tryout, "all_of", fails)
    before = state(green)
    assert run(green, NEW) == 1
    assert "the installed broker did not start" in capsys.readouterr().err
    assert state(green) == before
    assert not (green / "dist").exists()


@pytest.mark.thorough
def test_a_file_that_would_come_along_stops_the_release(
    green: Path, prebuilt: None, tried: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (green / "broker" / "odradek" / "notes.txt").write_text("for me alone\n")
    git(green, "add", "--all")
    git(green, "commit", "--quiet", "--message", "Notes")
    passed(green)
    before = state(green)
    assert run(green, NEW) == 1
    assert "broker/odradek holds odradek/notes.txt" in capsys.readouterr().err
    assert state(green) == before


@pytest.mark.thorough
def test_a_rehearsal_changes_nothing(
    green: Path, prebuilt: None, tried: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = state(green)
    assert run(green) == 0
    assert state(green) == before
    assert "This was a rehearsal" in capsys.readouterr().out
    assert len(tried) == 3


@pytest.mark.thorough
def test_a_checkout_with_changes_or_off_main_or_with_the_tag_is_refused(
    green: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (green / "new.txt").write_text("x")
    assert run(green, NEW) == 1
    assert "changes that are not committed" in capsys.readouterr().err
    (green / "new.txt").unlink()
    assert run(green, "0.0.1") == 1
    assert "0.0.1 is older than" in capsys.readouterr().err
    git(green, "tag", f"v{NEW}")
    assert run(green, NEW) == 1
    assert f"the tag v{NEW} is there already" in capsys.readouterr().err
    git(green, "checkout", "--quiet", "-b", "side")
    assert run(green, NEW) == 1
    assert "releases are made from main, and side is checked out" in capsys.readouterr().err


@pytest.mark.thorough
def test_a_commit_for_which_the_gate_has_not_passed_is_put_through_it(
    green: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gate = green / ".ci" / "run"
    gate.write_text("#!/bin/sh\nexit 1\n")
    git(green, "commit", "--quiet", "--all", "--message", "A gate that fails")
    assert run(green, NEW) == 1
    assert "main has to be green" in capsys.readouterr().err


def test_a_changelog_becomes_the_releases() -> None:
    day = datetime.date(2026, 1, 2)
    text = "# Changelog\n\n## Unreleased\n\n- More.\n\n## 0.1.0\n\n- First.\n"
    made = changelog.released(text, "0.2.0", day)
    assert made == text.replace("## Unreleased", "## 0.2.0 (2026-01-02)")
    assert changelog.notes(made, "0.2.0") == "- More."
    assert changelog.notes(made, "0.1.0") == "- First."
    with pytest.raises(changelog.ChangelogError, match="nothing under '## Unreleased'"):
        changelog.released(made, "0.3.0", day)
    with pytest.raises(changelog.ChangelogError, match=r"a part 0\.1\.0 already"):
        changelog.released(text, "0.1.0", day)
