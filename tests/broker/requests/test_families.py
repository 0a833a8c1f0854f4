"""A handler reaches the parts of its family of requests, each of which some handler of the family uses."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections import defaultdict
from pathlib import Path

import pytest

from odradek.broker.requests import parts
from odradek.broker.requests.families import FAMILIES
from odradek.broker.requests.parts import BrokerParts, ControllerParts
from odradek.broker.requests.table import CONTROLLER_HANDLERS, HANDLERS, TELEMETRY_HANDLERS, Handler
from odradek.wire.protocol.api import ApiKey

ROOT = Path(parts.__file__).parent
SHARED = {"images", "counters", "handlers", "authorizer", "optional_long_work", "long_work", "is_broker"}
# A listener's own dispatcher answers these; they ask nothing of a broker.
BY_LISTENERS = {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
ALL: dict[int, Handler] = {**HANDLERS, **TELEMETRY_HANDLERS, **CONTROLLER_HANDLERS}


def _class_of(family: str) -> str:
    declared = {**BrokerParts.__annotations__, **ControllerParts.__annotations__}[family]
    return str(declared).removesuffix(" | None")


@pytest.mark.parametrize("api", sorted(set(ALL) - BY_LISTENERS), ids=lambda api: ApiKey(api).name)
def test_a_handler_declares_the_parts_of_its_family(api: int) -> None:
    handle = importlib.import_module(f"odradek.broker.requests.{ALL[api].module}").handle
    declared = inspect.get_annotations(handle)["context"]
    family = FAMILIES.get(api, "shared")
    if family == "shared":
        assert declared == "AnyContext"
    else:
        assert declared == f"RequestContext[{_class_of(family)}]"


def _fields(family_class: str) -> set[str]:
    """What a family has beside the parts of every request, by the names that handlers use."""
    tree = ast.parse((ROOT / "parts.py").read_text())
    (declaration,) = [
        node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == family_class
    ]
    names = {
        node.target.attr
        for node in ast.walk(declaration)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute)
    }
    names |= {node.name for node in declaration.body if isinstance(node, ast.FunctionDef)}
    return {name for name in names if not name.startswith("_")}


def test_some_handler_of_a_family_uses_each_of_its_parts() -> None:
    texts: dict[str, str] = defaultdict(str)
    shared_by_families = "".join(
        (ROOT / name).read_text() for name in ("config_resources.py", "delegation_tokens.py")
    )
    for api, handler in ALL.items():
        module = ROOT / f"{handler.module.replace('.', '/')}.py"
        found = [module] if module.parent == ROOT else module.parent.glob("*.py")
        texts[FAMILIES.get(api, "shared")] += "".join(path.read_text() for path in found) + shared_by_families
    unused = {
        (family, name)
        for family in set(FAMILIES.values())
        for name in _fields(_class_of(family))
        if f"broker.{name}" not in texts[family]
    }
    assert unused == set()


def test_families_have_few_parts() -> None:
    counts = {family: len(_fields(_class_of(family))) for family in set(FAMILIES.values())}
    assert min(counts.values()) > 0 and max(counts.values()) <= 6, counts
