"""A kind of resource as the API server must know it: names, structure of spec and status, columns, scale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from odradek_operator.resources.structure import Nested, Rule

GROUP: Final = "odradek.io"
VERSION: Final = "v1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
CATEGORY: Final = "odradek"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of `kubectl get`; those with a priority above 0 only with `-o wide`."""

    name: str
    path: str
    type: str = "string"
    doc: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleSubresource:
    """The scale subresource: where the wanted number, the number there is, and the pods' selector are."""

    wanted: str
    actual: str
    selector: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A kind. `rules` hold for the whole object, where only metadata.name and generateName may be looked at besides."""

    kind: str
    plural: str
    short_name: str
    doc: str
    spec: type[object]
    status: type[object]
    columns: tuple[Column, ...]
    rules: tuple[Rule, ...] = ()
    scale: ScaleSubresource | None = None

    @property
    def name(self) -> str:
        return f"{self.plural}.{GROUP}"

    def manifest(self) -> dict[str, object]:
        subresources: dict[str, dict[str, str]] = {"status": {}}
        if self.scale is not None:
            subresources["scale"] = {
                "specReplicasPath": self.scale.wanted,
                "statusReplicasPath": self.scale.actual,
            }
            if self.scale.selector is not None:
                subresources["scale"]["labelSelectorPath"] = self.scale.selector
        version = {
            "name": VERSION,
            "served": True,
            "storage": True,
            "subresources": subresources,
            "additionalPrinterColumns": [_column(column) for column in self.columns],
            "schema": {"openAPIV3Schema": self._schema()},
        }
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name},
            "spec": {
                "group": GROUP,
                "names": {
                    "kind": self.kind,
                    "listKind": f"{self.kind}List",
                    "plural": self.plural,
                    "singular": self.kind.lower(),
                    "shortNames": [self.short_name],
                    "categories": [CATEGORY],
                },
                "scope": "Namespaced",
                "versions": [version],
            },
        }

    def _schema(self) -> dict[str, object]:
        schema: dict[str, object] = {
            "type": "object",
            "description": self.doc,
            "required": ["spec"],
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {"type": "object"},
                "spec": {"description": f"The wanted {self.kind}."} | Nested(self.spec).openapi(),
                "status": {"description": "What the operator has found."} | Nested(self.status).openapi(),
            },
        }
        if self.rules:
            schema["x-kubernetes-validations"] = [
                {"rule": rule.expression, "message": rule.message} for rule in self.rules
            ]
        return schema


def _column(column: Column) -> Mapping[str, object]:
    row: dict[str, object] = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.doc:
        row["description"] = column.doc
    if column.priority:
        row["priority"] = column.priority
    return row


READY_COLUMN: Final = Column(
    name="Ready",
    path='.status.conditions[?(@.type=="Ready")].status',
    doc="Whether what is wanted is there.",
)
REASON_COLUMN: Final = Column(
    name="Reason", path='.status.conditions[?(@.type=="Ready")].reason', doc="Why, in a word.", priority=1
)
AGE_COLUMN: Final = Column(name="Age", path=".metadata.creationTimestamp", type="date")
