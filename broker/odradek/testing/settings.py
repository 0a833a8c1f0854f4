"""The settings that a test gives its broker: any value, but only existing keys. A broker warns of an unknown key and
continues, as Apache Kafka does. In a test that is a spelling mistake which makes the test pass for the wrong reason, so
here it is an error.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.foundation.settings.areas.protection import protection_setting_of
from odradek.foundation.settings.areas.unused import RETIRED_PREFIXES
from odradek.foundation.settings.broker_settings import all_settings, find_setting
from odradek.foundation.words import nearest_name


def setting_texts(given: Mapping[str, object], *, source: str = "settings") -> dict[str, str]:
    """The settings in the form of `server.properties`. Raises ValueError naming every unknown key, TypeError for keys
    or values of wrong types. `source` names their origin in errors.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"{source}: a mapping of Kafka's keys to values is needed, not {given!r}")
    unknown = [problem for key in given if (problem := _problem(key)) is not None]
    if unknown:
        raise ValueError(f"{source}: " + "; ".join(unknown))
    return {key: setting_text(value, f"{source}: {key}") for key, value in given.items()}


def _problem(key: object) -> str | None:
    """The error for an unknown key, with the nearest one; None for a known key."""
    if not isinstance(key, str):
        return f"a key has to be a str, not {key!r}"
    if (
        find_setting(key) is not None
        or protection_setting_of(key) is not None
        or key.startswith(RETIRED_PREFIXES)
    ):
        return None
    nearest = nearest_name(key.replace("_", "."), all_settings())
    hint = "keys are those of Kafka's server.properties" if nearest is None else f"did you mean {nearest!r}?"
    return f"there is no setting {key!r}; {hint}"


def setting_text(value: object, what: str) -> str:
    """One value in the form of Kafka's files and requests: `true`, `a,b`. Raises TypeError for None, naming `what`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(str(part) for part in value)
    if value is None:
        raise TypeError(f"{what} is None; leave the key out to keep its default")
    return str(value)
