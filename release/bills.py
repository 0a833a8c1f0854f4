"""Bills of materials: what each distribution and each image is made of, in CycloneDX's JSON (1.5).

A distribution's bill is of the fresh environment in which its wheel was tried: itself, and all that pip installed for
it. An image's bill has Debian's packages besides. A bill of the same content has the same bytes.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Final

BILL_SUFFIX: Final = ".cdx.json"
_NAMESPACE: Final = uuid.UUID("3c1d5a52-3e0c-5d0b-9a53-6b1c0f0f6a11")
_PROVIDES: Final = re.compile(r"^[A-Za-z0-9._-]+")
# A file may have a whole licence in this field, where a name is meant.
_LICENCE_LENGTH_MAX: Final = 100


@dataclass(frozen=True, slots=True, order=True)
class Component:
    """A package. `source` is how a package URL names where it comes from: pypi, or deb/debian."""

    name: str
    version: str
    source: str
    licence: str = ""
    needs: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """The package URL, which names it in the bill."""
        return f"pkg:{self.source}/{self.name}@{self.version.replace('+', '%2B').replace('~', '%7E')}"


def python_components(site: Path) -> list[Component]:
    """The Python packages of a folder, by name."""
    return sorted({_component_of(one) for one in distributions(path=[str(site)])})


def _component_of(distribution: Distribution) -> Component:
    about = distribution.metadata
    named = [about[key] for key in ("License-Expression", "License") if key in about]
    licence = named[0] if named else ""
    needs = (_PROVIDES.match(one) for one in distribution.requires or () if "extra ==" not in one)
    return Component(
        name=_normal_name(about["Name"]),
        version=distribution.version,
        source="pypi",
        licence=licence if len(licence) <= _LICENCE_LENGTH_MAX and "\n" not in licence else "",
        needs=tuple(sorted({_normal_name(found[0]) for found in needs if found is not None})),
    )


def _normal_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def debian_components(status: str) -> list[Component]:
    """The installed packages in the text of /var/lib/dpkg/status, by name."""
    return sorted(set(_read_status(status)))


def _read_status(status: str) -> Iterator[Component]:
    for entry in status.split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", entry, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed") and "Version" in fields:
            yield Component(fields["Package"], fields["Version"], "deb/debian")


def write_bill(subject: str, version: str, components: Sequence[Component], *, seconds: int) -> str:
    """The bill of `subject`, which is no part of itself. `seconds` since 1970 are when it was made."""
    parts = [one for one in components if one.name != subject]
    known = {one.name: one for one in components if one.source == "pypi"}
    own = known.get(subject) or Component(subject, version, "generic")
    content = {
        "metadata": {
            "timestamp": datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {"type": "application", **_describe(own)},
        },
        "components": [{"type": "library", **_describe(one)} for one in parts],
        "dependencies": [_list_needs(one, known.values()) for one in known.values()],
    }
    serial = uuid.uuid5(_NAMESPACE, json.dumps(content, sort_keys=True))
    head = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
    }
    return json.dumps({**head, **content}, indent=1) + "\n"


def _describe(component: Component) -> dict[str, object]:
    described: dict[str, object] = {
        "bom-ref": component.url,
        "name": component.name,
        "version": component.version,
        "purl": component.url,
    }
    if component.licence:
        described["licenses"] = [{"license": {"name": component.licence}}]
    return described


def _list_needs(component: Component, all_of_them: Iterable[Component]) -> dict[str, object]:
    """What it needs of what is there: a need of another platform is not."""
    return {
        "ref": component.url,
        "dependsOn": [one.url for one in all_of_them if one.name in component.needs],
    }
