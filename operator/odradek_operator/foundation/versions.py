"""The versions that work together, declared once: the operator, brokers, and the formats that brokers leave behind.

Brokers and controllers of one image write a broker's directory and the registry in ZooKeeper. Both outlive the image,
so what matters to an upgrade is whether another image can read them. A version is known by its series, MAJOR.MINOR:
releases of one series have the same formats. A newer series reads what an older one of this table has written, and
during a roll brokers of both serve together. An older series reads only formats that are not newer than its own.

An operator runs the series of its table and no others: one that is newer may need what this operator does not do.
A new series is a new row, and a test holds the version of this distribution to be in it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)(\.\d+)?([-+._][0-9A-Za-z.+_-]*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Releases MAJOR.MINOR of brokers and controllers, and the numbers of the formats that they write."""

    major: int
    minor: int
    data_format: int
    registry_format: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


# The resources' API version that this operator reads and its charts install.
DEFINITIONS_VERSION: Final = "odradek.io/v1"
SERIES: Final = (
    Series(major=0, minor=1, data_format=1, registry_format=1),
    Series(major=0, minor=2, data_format=1, registry_format=1),
)


class Refusal(StrEnum):
    """Why an image is not run."""

    UNKNOWN_VERSION = "UnknownVersion"
    DOWNGRADE = "DowngradeRefused"


@dataclass(frozen=True, slots=True)
class RefusedImage:
    """An image that is not run, and what to do."""

    reason: Refusal
    message: str


def is_version(text: str | None) -> bool:
    """Whether a text is a version, as 0.2.0, v0.2 or 0.2.1-site.3."""
    return text is not None and _VERSION.fullmatch(text) is not None


def series_of(version: str, known: Sequence[Series] = SERIES) -> Series | None:
    """The series that a version belongs to; None for one that is not in the table, or for what is no version."""
    found = _VERSION.fullmatch(version)
    if found is None:
        return None
    numbers = (int(found[1]), int(found[2]))
    return next((one for one in known if (one.major, one.minor) == numbers), None)


def check(
    *, image: str, wanted: str | None, newest: str | None, known: Sequence[Series] = SERIES
) -> RefusedImage | None:
    """Why an image of the version `wanted` may not run where brokers of `newest` have run; None where it may.

    `wanted` is None where nothing says the image's version, `newest` where no broker has run yet.
    """
    if wanted is None:
        return RefusedImage(
            Refusal.UNKNOWN_VERSION,
            f"nothing says which version the image {image} is: its tag is none. Name the version in spec.version",
        )
    series = series_of(wanted, known)
    if series is None:
        return RefusedImage(
            Refusal.UNKNOWN_VERSION,
            f"this operator runs brokers of {_range(known)}, and the image {image} is {wanted}. "
            "Choose another image, or upgrade the operator first",
        )
    before = None if newest is None else series_of(newest, known)
    if newest is None or series == before:
        return None
    if before is None:
        return RefusedImage(
            Refusal.UNKNOWN_VERSION,
            f"brokers of {newest} have run here, which this operator does not know: it runs brokers of "
            f"{_range(known)}. Upgrade the operator first",
        )
    parts = [
        name
        for name, is_newer in (
            ("broker directories", before.data_format > series.data_format),
            ("the registry", before.registry_format > series.registry_format),
        )
        if is_newer
    ]
    if parts:
        return RefusedImage(
            Refusal.DOWNGRADE,
            f"brokers of {newest} have run here, and {wanted} cannot read how they write {' and '.join(parts)}. "
            f"Set the image back to {before} or newer",
        )
    return None


def _range(known: Sequence[Series]) -> str:
    return f"{known[0]}" if len(known) == 1 else f"{known[0]} to {known[-1]}"


def newer_of(one: str | None, other: str | None) -> str | None:
    """The version whose series is newer, the first of two that are alike; None where neither is a version."""
    versions = [text for text in (one, other) if text is not None and is_version(text)]
    return max(versions, key=_numbers, default=None)


def _numbers(version: str) -> tuple[int, int]:
    found = _VERSION.fullmatch(version)
    assert found is not None
    return int(found[1]), int(found[2])


def page() -> str:
    """The table as the reference page shows it."""
    lines = [
        "<!-- Made by `make reference` from odradek_operator.foundation.versions; edits here are lost. -->",
        "# Versions that work together",
        "",
        "The operator and the charts of this version run brokers and controllers of these series. Releases of one",
        "series have the same formats.",
        "",
        "| brokers and controllers | resources | broker directory | registry in ZooKeeper | upgrade to | back to |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for at, one in enumerate(SERIES):
        forth = [str(other) for other in SERIES[at + 1 :]]
        back = [
            str(other)
            for other in SERIES[:at]
            if other.data_format >= one.data_format and other.registry_format >= one.registry_format
        ]
        cells = (
            f"{one}",
            f"`{DEFINITIONS_VERSION}`",
            f"format {one.data_format}",
            f"format {one.registry_format}",
            ", ".join(forth) or "none yet",
            ", ".join(back) or "none",
        )
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "The version of an image is its tag. Where the tag is none (a digest, a word), `spec.version` of the Cluster",
        "names it. An image of a version that is not in the table is refused. So is a version that cannot read the",
        "formats that a newer one has written. `Ready` is False with the reason `UnknownVersion` or",
        "`DowngradeRefused`, and the brokers keep the image that they have.",
        "[Upgrading](../kubernetes.md#upgrading) says what to upgrade first.",
    ]
    return "\n".join(lines) + "\n"
