"""Pages say how to install from a clone until a release is there, and from a package index then."""

from __future__ import annotations

from pathlib import Path

import pytest

from release import install_lines, version

BEFORE = """\
```sh
pip install /path/to/odradek/pipeline pyspark==4.0.0    # a clone of this repository
pip install confluent-kafka
```
`pip install '/path/to/odradek[compaction]'` has it, and `pip install . ./operator` stays.
```json
{"postCreateCommand": "pip install /path/to/odradek", "forwardPorts": [9092]}
```
"""
AFTER = """\
```sh
pip install odradek-pipeline pyspark==4.0.0
pip install confluent-kafka
```
`pip install 'odradek[compaction]'` has it, and `pip install . ./operator` stays.
```json
{"postCreateCommand": "pip install odradek", "forwardPorts": [9092]}
```
"""


@pytest.mark.parametrize("page", [BEFORE, AFTER])
def test_a_page_has_the_commands_of_one_declaration(page: str) -> None:
    assert install_lines.with_installs(page, is_published=False) == BEFORE
    assert install_lines.with_installs(page, is_published=True) == AFTER


@pytest.mark.thorough
def test_a_release_switches_every_page(own_copy: Path) -> None:
    assert not install_lines.is_published(own_copy)
    install_lines.declare_published(own_copy)
    assert install_lines.is_published(own_copy)
    changed = version.write(own_copy)
    assert {"docs/pipeline.md", "broker/README.md", "operator/README.md"} <= set(changed)
    for page in install_lines.pages(own_copy):
        assert "pip install /path/to" not in page.read_text(), page
