"""The words of verbs for log directories: free and total bytes, which are full, which failed."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.cli.shared.output import Styled, bad, format_bytes, warning
from odradek.client.admin.disks import volumes
from odradek.client.admin.health import DirectoryStatus, directory_status
from odradek.client.results import LogDirectoryDescription


def disk_words(directories: Sequence[LogDirectoryDescription]) -> str | None:
    """A broker's disks in a few words; None for a broker before Kafka 3.3, which does not report them."""
    failed = sum(one.error is not None for one in directories)
    full = sum(one.is_full for one in directories)
    parts = []
    for number, what in ((full, "full"), (failed, "failed")):
        if number and len(directories) == 1:
            parts.append(what)
        elif number:
            parts.append(f"{number} of {len(directories)} directories {what}")
    room = volumes(directories)
    if room is not None:
        total, usable = room
        parts.append(f"{format_bytes(usable)} of {format_bytes(total)} free")
    return ", ".join(parts) or None


def disk_cell(directories: Sequence[LogDirectoryDescription]) -> Styled | str | None:
    """As `disk_words`, in the colour of the worst that a directory has."""
    words, found = disk_words(directories), {directory_status(one) for one in directories}
    if found & {DirectoryStatus.FULL, DirectoryStatus.FAILED}:
        return bad(words)
    return warning(words) if DirectoryStatus.NEARLY_FULL in found else words


def directory_document(directory: LogDirectoryDescription) -> dict[str, object]:
    """A directory for programs, without its replicas. Bytes are None when the broker does not report them."""
    return {
        "path": directory.path,
        "total_bytes": directory.total_bytes if directory.total_bytes >= 0 else None,
        "usable_bytes": directory.usable_bytes if directory.usable_bytes >= 0 else None,
        "is_full": directory.is_full,
        "error": directory.error,
    }


def refusal_words(directory: LogDirectoryDescription) -> str:
    """Why the commits of a group are refused: its offsets are in this full directory."""
    return (
        f"commits are refused: the log directory {directory.path} of the coordinator, broker {directory.broker_id}, "
        f"is full ({format_bytes(directory.usable_bytes)} free)"
    )


def full_words(directory: LogDirectoryDescription) -> str:
    """Which directory is full."""
    return (
        f"the log directory {directory.path} of broker {directory.broker_id} is full "
        f"({format_bytes(directory.usable_bytes)} free)"
    )
