"""Settings from a YAML file: keys for all commands, and a section with a command's name for that command alone.

    bootstrap: 127.0.0.1:9092
    topic: [orders]
    load:
      output: /data/orders

A flag wins over its section, and the section over a key outside. An unknown key is an error, with the nearest name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import yaml

from odradek.foundation.settings.tables import suggest
from odradek_pipeline.errors import PipelineSettingError

FILE_BYTES_MAX = 1024 * 1024


def read_file(path: Path, command: str, known: Mapping[str, Collection[str]]) -> dict[str, tuple[Any, str]]:
    """The settings that a file has for `command`, each with where it stands. `known` are the names by command.

    Raises PipelineSettingError: no file, no YAML, a key that no command has.
    """
    content = _read_content(path)
    names = {name for of_one in known.values() for name in of_one}
    found: dict[str, tuple[Any, str]] = {}
    for key, value in content.items():
        if key in known and isinstance(value, Mapping):
            continue
        _require_known(str(key), {*names, *known}, str(path))
        if key in known[command]:
            found[str(key)] = (value, str(path))
    for section in (name for name in content if name in known and isinstance(content[name], Mapping)):
        for key, value in content[section].items():
            _require_known(str(key), known[section], f"{path}, section {section}")
            if section == command:
                found[str(key)] = (value, f"{path}, section {section}")
    return found


def _read_content(path: Path) -> Mapping[Any, Any]:
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise PipelineSettingError(
                f"{path} is larger than {FILE_BYTES_MAX} bytes: name a file of settings"
            )
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as failure:
        raise PipelineSettingError(f"{path} cannot be read: {failure.strerror}") from failure
    except (yaml.YAMLError, UnicodeDecodeError) as failure:
        raise PipelineSettingError(f"{path} is not YAML: {' '.join(str(failure).split())}") from failure
    if content is None:
        return {}
    if not isinstance(content, Mapping):
        raise PipelineSettingError(
            f"{path} holds a {type(content).__name__}: write one setting a line, as topic: orders"
        )
    return content


def _require_known(key: str, names: Collection[str], source: str) -> None:
    if key not in names:
        raise PipelineSettingError(f"{source}: there is no setting {key!r}{suggest(key, sorted(names))}")
