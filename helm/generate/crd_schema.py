"""A resource's `spec` as part of a chart's schema, so that the chart has no second opinion on what a resource may hold.

The definitions' structural schemas say nearly what JSON Schema says. Two things differ. An object with named fields
takes no others: the API server would drop them quietly, a user's typing error with them. And Kubernetes' own marks are
read or left out. Rules in CEL stay with the API server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from odradek_operator.resources.configuration import REFUSED_RULE
from odradek_operator.resources.schema import QUANTITY_PATTERN, QUANTITY_RULE

_MATCHES: Final = re.compile(r"self\.matches\(r'(.*)'\)")
_NUMBER: Final = r"^(0|-?[1-9][0-9]{0,18})$"


def spec_schema(
    definition: Mapping[str, Any], *, without: tuple[str, ...] = (), may_lack: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The strict schema of the spec of a definition's newest version.

    Fields named in `without` are not allowed; those in `may_lack` are not required, because templates fill them in.
    """
    version = definition["spec"]["versions"][-1]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    kept = {
        **spec,
        "properties": {name: part for name, part in spec["properties"].items() if name not in without},
        "required": [name for name in spec.get("required", ()) if name not in (*without, *may_lack)],
    }
    return _strict(kept)


def _strict(schema: Mapping[str, Any]) -> dict[str, Any]:
    written: dict[str, Any] = {
        key: value
        for key, value in schema.items()
        if not key.startswith("x-kubernetes-") and key not in ("nullable", "format", "example")
    }
    if (pattern := _pattern_of(schema)) is not None:
        written["pattern"] = pattern
    if schema.get("nullable") and isinstance(written.get("type"), str):
        written["type"] = [written["type"], "null"]
    if not written.get("required", True):
        del written["required"]
    if "properties" in schema:
        written["properties"] = {
            name: _strict(part) for name, part in schema["properties"].items() if not _is_refused(part)
        }
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            written.setdefault("additionalProperties", False)
    for key in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(key), Mapping):
            written[key] = _strict(schema[key])
    for key in ("allOf", "anyOf", "oneOf"):
        if key in schema:
            written[key] = [_unchanged_objects(part) for part in schema[key]]
    return written


def _is_refused(schema: Mapping[str, Any]) -> bool:
    """Whether a field is there only to say what to write instead: here it is a field that is not known."""
    return any(one["rule"] == REFUSED_RULE for one in schema.get("x-kubernetes-validations", ()))


def _pattern_of(schema: Mapping[str, Any]) -> str | None:
    """The pattern that a rule of a text checks: the definitions have rules instead, for their messages."""
    for one in schema.get("x-kubernetes-validations", ()):
        rule = str(one["rule"])
        if (found := _MATCHES.fullmatch(rule)) is not None:
            return found[1]
        if rule == QUANTITY_RULE:
            return QUANTITY_PATTERN
        if "int(self)" in rule:
            return _NUMBER
    return None


def _unchanged_objects(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A branch of a choice: it only narrows what stands beside it, so it may not forbid the fields it does not name."""
    return {key: value for key, value in schema.items() if not key.startswith("x-kubernetes-")}
