"""CHANGELOG.md at a release: `## Unreleased` becomes the version with its date, and its text is the release's notes."""

from __future__ import annotations

import datetime
import re

from release.commands import ReleaseError

UNRELEASED = "## Unreleased"
_NEXT = re.compile(r"^## ", re.MULTILINE)


class ChangelogError(ReleaseError):
    """The CHANGELOG is not ready for this release; the text says what it lacks."""


def released(text: str, version: str, day: datetime.date) -> str:
    """The CHANGELOG with its unreleased part under the version's heading. Raises ChangelogError."""
    if notes(text, version) is not None:
        raise ChangelogError(f"CHANGELOG.md has a part {version} already")
    if not (_part(text, UNRELEASED) or "").strip():
        raise ChangelogError(
            f"CHANGELOG.md has nothing under {UNRELEASED!r}: say there what the release changes"
        )
    return re.sub(rf"^{UNRELEASED}$", f"## {version} ({day.isoformat()})", text, count=1, flags=re.MULTILINE)


def notes(text: str, version: str) -> str | None:
    """The CHANGELOG's part about a version; None when it has no part of its own."""
    found = re.search(rf"^## {re.escape(version)}(?: \(.*\))?$", text, re.MULTILINE)
    return None if found is None else _part(text, found[0])


def _part(text: str, heading: str) -> str | None:
    found = re.search(rf"^{re.escape(heading)}$\n", text, re.MULTILINE)
    if found is None:
        return None
    following = _NEXT.search(text, found.end())
    return text[found.end() : following.start() if following else len(text)].strip()
