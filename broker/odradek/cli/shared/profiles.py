"""Profiles: named sets of client properties, one file each, and which of them is in use. The directory is
`$XDG_CONFIG_HOME/odradek/` (`~/.config/odradek/` without it). It has `profiles/NAME.properties` in the syntax of
Kafka's client.properties, and `current-profile` with the name of the one in use. Only the owner can read them. A file
is replaced as a whole, so that a crash leaves the old one or the new one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from odradek.cli.shared import late
from odradek.client.properties import ReadProperties, read_client_properties
from odradek.foundation.errors import SettingError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_SUFFIX = ".properties"
_MODE_DIRECTORY = 0o700


class ProfileExistsError(FileExistsError):
    """A profile of that name exists already."""


def directory() -> Path:
    """The directory of all profiles. An XDG_CONFIG_HOME that is not absolute is ignored, as specified."""
    base = Path(os.environ.get("XDG_CONFIG_HOME") or "")
    return (base if base.is_absolute() else Path.home() / ".config") / "odradek"


def names() -> list[str]:
    """All profiles, by name."""
    try:
        found = os.listdir(directory() / "profiles")
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(
        name.removesuffix(_SUFFIX)
        for name in found
        if name.endswith(_SUFFIX) and _NAME.match(name.removesuffix(_SUFFIX))
    )


def is_name(text: str) -> bool:
    """Whether a profile can have this name."""
    return _NAME.match(text) is not None


def path_of(name: str) -> Path:
    """The path of a profile's file, which may not exist. Raises SettingError for an invalid name."""
    if not is_name(name):
        raise SettingError(
            f"{name!r} cannot name a profile: use up to 64 letters, digits, '.', '_' and '-', "
            "with a letter or a digit first"
        )
    return directory() / "profiles" / f"{name}{_SUFFIX}"


def current() -> str | None:
    """The profile in use, or None."""
    try:
        return (directory() / "current-profile").read_text(encoding="utf-8").strip() or None
    except (FileNotFoundError, NotADirectoryError):
        return None


def use(name: str | None) -> None:
    """Make `name` the profile in use, or none with None. Raises FileNotFoundError, SettingError."""
    if name is None:
        (directory() / "current-profile").unlink(missing_ok=True)
        return
    if not path_of(name).exists():
        raise _not_there(name, named_by="")
    _write(directory() / "current-profile", f"{name}\n")


def entries(name: str, *, named_by: str = "") -> dict[str, str]:
    """The entries of a profile's file, unchecked. Raises FileNotFoundError, which names the profiles that exist."""
    path = path_of(name)
    if not path.exists():
        raise _not_there(name, named_by=named_by)
    return late.read_entries(str(path), what=f"profile {name!r}:")


def read(name: str, *, named_by: str = "") -> ReadProperties:
    """The properties of a profile. Raises FileNotFoundError, and SettingError for a property that cannot be used."""
    return read_client_properties(entries(name, named_by=named_by), source=f"profile {name!r}")


def create(name: str, properties: Mapping[str, str]) -> None:
    """Make a profile. Raises ProfileExistsError, SettingError."""
    if path_of(name).exists():
        raise ProfileExistsError(f"there is a profile {name!r} already; `odradek profile set` changes it")
    write(name, properties)


def write(name: str, properties: Mapping[str, str]) -> None:
    """Write a profile as a whole."""
    lines = (f"{key}={_escape_value(value)}\n" for key, value in properties.items())
    _write(path_of(name), "".join(lines))


def delete(name: str) -> None:
    """Delete a profile. If it was in use, none is then. Raises FileNotFoundError."""
    try:
        path_of(name).unlink()
    except FileNotFoundError as failure:
        raise _not_there(name, named_by="") from failure
    if current() == name:
        use(None)


def _not_there(name: str, *, named_by: str) -> FileNotFoundError:
    origin = f" (named by {named_by})" if named_by else ""
    known = names()
    hint = f"there are: {', '.join(known)}" if known else "`odradek profile create NAME` makes one"
    return FileNotFoundError(f"there is no profile {name!r}{origin}; {hint}")


def _write(path: Path, text: str) -> None:
    for folder in (directory(), path.parent):
        folder.mkdir(mode=_MODE_DIRECTORY, parents=True, exist_ok=True)
    late.replace_file(path, text.encode())


def _escape_value(value: str) -> str:
    """A value as a property file holds it: one line, its blanks at the beginning kept."""
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return "\\" + escaped if escaped.startswith(" ") else escaped
