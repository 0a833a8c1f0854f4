"""What is made from the declarations is what lies in the repository."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from odradek_operator.resources.reference import files

ROOT = Path(__file__).parents[3]
FILES = files()


@pytest.mark.parametrize("path", FILES)
def test_what_is_made_is_what_is_there(path: str) -> None:
    there = ROOT / path
    assert there.is_file() and there.read_text() == FILES[path], (
        f"{path} is old: run `make reference` and commit it"
    )


@pytest.mark.parametrize("path", [path for path in FILES if path.startswith("manifests/")])
def test_no_definition_is_too_large_to_be_applied(path: str) -> None:
    # kubectl apply keeps a copy in an annotation, which may hold 256 KiB.
    assert len(FILES[path]) < 200_000
    definition = yaml.safe_load(FILES[path])
    assert definition["spec"]["names"]["categories"] == ["odradek"]
    assert definition["spec"]["versions"][0]["subresources"]["status"] == {}
