"""Files and directories that only this process's user reads: records, keys, passwords.

Their modes are 0600 and 0700, whatever the umask allows. In a directory that is shared with a group, its group has the
same rights. Kubernetes gives a volume to a pod that way (fsGroup), and the pod's next user may be another one. Others
never have any. A file that is a link is refused, since what it points to would be changed.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import Final

_OWNER_OF_FILE: Final = 0o600
_GROUP_OF_FILE: Final = 0o060
_OWNER_OF_DIRECTORY: Final = 0o700
_GROUP_OF_DIRECTORY: Final = 0o070
LINK_REFUSED: Final = "it is a link, which is not followed"


def link_refused(path: str) -> OSError:
    """The error for a link in the place of a file or a folder of ours."""
    return OSError(errno.ELOOP, LINK_REFUSED, path)


def file_mode(path: str) -> int:
    """The mode of a new file at `path`."""
    return _OWNER_OF_FILE | (_GROUP_OF_FILE if _is_shared(os.path.dirname(path) or ".") else 0)


def _is_shared(directory: str) -> bool:
    """Whether a directory is shared with its group. One that all users may write to is not."""
    try:
        mode = os.stat(directory).st_mode
    except OSError:
        return False
    return bool(mode & stat.S_ISGID) or (bool(mode & stat.S_IWGRP) and not mode & stat.S_IWOTH)


def open_private(path: str, flags: int) -> int:
    """The descriptor of `os.open`; a file that it makes is private. Raises OSError, also for a link."""
    mode = file_mode(path) if flags & os.O_CREAT else 0
    try:
        return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise link_refused(path) from error
        raise


def make_private_directory(path: str, *, may_be_link: bool = False) -> None:
    """Make a directory and those above it, as far as they are missing. One that is there keeps its mode.

    Raises OSError; for a link too, unless it may be one.
    """
    if not may_be_link and os.path.islink(path):
        raise link_refused(path)
    parent = os.path.dirname(path.rstrip("/"))
    try:
        _make(path, parent or ".")
    except FileNotFoundError:
        if not parent or parent == path:
            raise
        make_private_directory(parent, may_be_link=True)
        _make(path, parent)


def _make(path: str, parent: str) -> None:
    mode = _OWNER_OF_DIRECTORY | (_GROUP_OF_DIRECTORY if _is_shared(parent) else 0)
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        if not os.path.isdir(path):
            raise


def narrow(path: str) -> int | None:
    """Take from others what they may do with the file at `path`. The mode that it had; None when it was private.

    Raises OSError, also for a link.
    """
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        raise link_refused(path)
    private = stat.S_IMODE(mode) & file_mode(path)
    if private == stat.S_IMODE(mode):
        return None
    os.chmod(path, private)
    return stat.S_IMODE(mode)


def exposure(directory: str) -> str:
    """What others may do in a directory, for people: "" for nothing. A group that shares it is no other."""
    mode = os.stat(directory).st_mode
    others = mode & stat.S_IRWXO
    if not _is_shared(directory):
        others |= (mode & stat.S_IRWXG) >> 3
    if others & stat.S_IWOTH:
        return "change"
    return "read" if others else ""
