"""Programs of others that tests start, and where they are; `make tools` brings what is missing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from tests.support.peers import skip_or_fail

CHECKOUT: Final = Path(__file__).resolve().parents[2]
BUILT: Final = CHECKOUT / ".cache" / "programs" / "bin"
HELM_VERSION: Final = "v3.22.0"
KUBERNETES_VERSION: Final = "v1.34.4"
ETCD_VERSION: Final = "v3.6.4"
COMPOSE_VERSION: Final = "v2.16.2"
COMPOSE_SCHEMA: Final = BUILT.parent / f"compose-spec-{COMPOSE_VERSION}.json"
AXE_VERSION: Final = "4.14.1"
AXE: Final = BUILT.parent / f"axe-{AXE_VERSION}.min.js"
# What the one-node cluster for e2e has built. Its etcd is newer than Debian's, which the API server does not bear.
_OF_THE_CLUSTER: Final = Path(os.environ.get("CLUSTER_CACHE", Path.home() / ".cache" / "cluster")) / "bin"
_FRANZ_GO: Final = CHECKOUT / ".cache" / "franz-go"


class UnavailableError(Exception):
    """A tool that could not be had, with the reason."""


def find_program(name: str) -> str | None:
    """Path of a program, or None."""
    for folder in (_OF_THE_CLUSTER, BUILT):
        if os.access(folder / name, os.X_OK):
            return str(folder / name)
    return shutil.which(name)


def require_program(name: str) -> str:
    """Path of a program. Without it the test is skipped; in CI it fails."""
    found = find_program(name)
    if found is None:
        skip_or_fail(f"there is no {name} here: `make tools` brings it")
    assert found is not None
    return found


def require_axe() -> str:
    """The script of axe, likewise."""
    if not AXE.exists():
        skip_or_fail("axe is not here: `make tools` brings it")
    return AXE.read_text()


def require_franz_go() -> None:
    """The same for franz-go's tests and the program that logs in."""
    names = ("pkg/kgo/kgo.test", "odradek_login/login")
    if not all(any(_FRANZ_GO.glob(f"*/{name}")) for name in names):
        skip_or_fail("franz-go's tests are not built here: `make tools` builds them")
