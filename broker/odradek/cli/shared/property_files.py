"""Reads property files: the one that --command-config names, and those of profiles."""

from __future__ import annotations

from odradek.client.properties import ReadProperties, read_client_properties
from odradek.foundation.client_limits import CLIENT_PROPERTIES_BYTES_MAX
from odradek.foundation.errors import SettingError
from odradek.foundation.settings.file import parse_properties


def read_property_file(path: str, *, what: str = "--command-config") -> ReadProperties:
    """A file in the syntax of Kafka's client.properties. Raises FileNotFoundError, and SettingError naming `what`."""
    return read_client_properties(read_entries(path, what=what), source=path)


def read_entries(path: str, *, what: str) -> dict[str, str]:
    """The unchecked entries of a property file. Raises FileNotFoundError, and SettingError naming `what`."""
    return parse_properties(read_text(path, what=what), source=path)


def read_text(path: str, *, what: str) -> str:
    """The text of a file of settings. Raises as `read_entries`."""
    try:
        with open(path, "rb") as file:
            data = file.read(CLIENT_PROPERTIES_BYTES_MAX + 1)
        if len(data) > CLIENT_PROPERTIES_BYTES_MAX:
            raise SettingError(f"{what} {path}: larger than {CLIENT_PROPERTIES_BYTES_MAX} bytes")
        return data.decode("utf-8")
    except FileNotFoundError as failure:
        raise FileNotFoundError(f"{what} {path}: there is no such file") from failure
    except OSError as failure:
        raise SettingError(f"{what} {path}: {failure.strerror}") from failure
    except UnicodeDecodeError as failure:
        raise SettingError(f"{what} {path}: it is not UTF-8 text: {failure}") from failure
