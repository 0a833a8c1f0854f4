"""What is made from the declarations is what lies in the repository."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helm.generate.yaml_text import read_document
from odradek_operator.resources.reference import files

ROOT = Path(__file__).parents[3]
FILES = files()


@pytest.mark.generated
@pytest.mark.parametrize("path", FILES)
def test_what_is_made_is_what_is_there(path: str) -> None:
    there = ROOT / path
    assert there.is_file() and there.read_text() == FILES[path], (
        f"{path} is old: run `make reference` and commit it"
    )


@pytest.mark.parametrize("path", [path for path in FILES if path.startswith("manifests/")])
def test_no_definition_is_too_large_to_be_applied(path: str) -> None:
    definition = read_document(FILES[path])
    # kubectl apply keeps a copy in an annotation, as JSON without blanks. All annotations together have 256 KiB, and
    # the definition has others: the chart's, and what Argo CD and others add.
    assert len(json.dumps(definition, separators=(",", ":"))) < 200_000
    assert definition["spec"]["names"]["categories"] == ["odradek"]
    assert definition["spec"]["versions"][0]["subresources"]["status"] == {}
