"""The documents' own blocks, played on the cluster that KUBECONFIG names: a reader's commands, as typed.

`tests/support/pages.py` reads a page, `tests/support/page_run.py` runs its blocks. Blocks that need no Kubernetes are
left to `tests/docs`. Nothing is added to the commands but the images' registry, where ODRADEK_E2E_IMAGES names one.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from e2e.boot import CHECKOUT, registry
from tests.support.java import java_home
from tests.support.page_run import PageRun
from tests.support.pages import Block, blocks_of

_HELM = """\
#!/bin/sh
case "$1" in install | upgrade) set -- "$@" --set global.imageRegistry={registry} ;; esac
exec {helm} "$@"
"""


def kubernetes_blocks(page: str, part: str = "") -> list[Block]:
    """The blocks of a page that need a Kubernetes: those of one part, or those of none."""
    found = blocks_of(CHECKOUT / page, page=page)
    return [block for block in found if block.kind == "kubernetes" and block.part == part]


def play(page: str, folder: Path, part: str = "") -> None:
    """Run those blocks in their order. Raises BlockFailed at the first that does something else than the page says."""
    blocks = kubernetes_blocks(page, part)
    assert blocks, f"{page} has no blocks for Kubernetes"
    before = dict(os.environ)
    # Readers have a Java of their own, and mostly a larger node for Spark.
    os.environ |= {"JAVA_HOME": java_home(), "CORES_REQUEST": "100m"}
    if registry():
        os.environ["PATH"] = f"{_helm_with_registry(folder / 'registry')}:{before['PATH']}"
    try:
        with PageRun(folder, blocks, has_kubernetes=True) as run:
            run.play()
    finally:
        os.environ.clear()
        os.environ.update(before)


def _helm_with_registry(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "helm").write_text(_HELM.format(registry=registry(), helm=shutil.which("helm")))
    (folder / "helm").chmod(0o755)
    return folder
