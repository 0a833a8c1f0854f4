"""What only Linux has stands behind one door each, and a Python without it imports every module.

`make test-portable` runs the quick tests on the portable forms.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

import pytest

from tests.portable.linux_names import HIDDEN, LISTED, linux_names
from tests.tidy.checkout import PRODUCT, ROOT, named, sources

# The modules that may use such a name. Each asks whether it is there, and has another form beside it.
DOORS: Final = {
    "broker/odradek/client/classic/lease.py": {"time.CLOCK_BOOTTIME"},
    "broker/odradek/foundation/linux_calls.py": {"os.sched_setscheduler"},
    "broker/odradek/foundation/syncing.py": {"os.fdatasync"},
    "broker/odradek/storage/files.py": {
        "os.POSIX_FADV_DONTNEED",
        "os.RWF_NOWAIT",
        "os.posix_fadvise",
        "os.posix_fallocate",
    },
    "broker/odradek/security/tls/contexts.py": {"os.memfd_create"},
    "broker/odradek/network/sendfile.py": {"os.sendfile"},
    # It runs in a container.
    "operator/odradek_operator/desired/mirror.py": {"os.memfd_create"},
}
# What else is one system's, or may not be installed: only these modules have it.
HOMES: Final = {
    "import uvloop": {
        "broker/odradek/foundation/event_loop.py",
        "broker/odradek/foundation/plain_sockets.py",
    },
    "import ctypes": {"broker/odradek/foundation/linux_calls.py", "broker/odradek/foundation/scheduling.py"},
    "os.fsync(": {"broker/odradek/foundation/syncing.py"},
    "/proc/": {
        "broker/odradek/foundation/metrics.py",
        "broker/odradek/foundation/scheduling.py",
        "broker/odradek/storage/files.py",
        "broker/odradek/security/tls/contexts.py",
        "operator/odradek_operator/desired/mirror.py",
    },
}
_MODULES: Final = ("errno", "fcntl", "mmap", "os", "resource", "select", "signal", "socket", "time")
_USE: Final = re.compile(rf"\b({'|'.join(_MODULES)})(?:\.|, \")(\w+)")
_IMPORT: Final = re.compile(rf"^from ({'|'.join(_MODULES)}) import (.*)$", re.MULTILINE)
IMPORT_ALL: Final = """
import importlib, pkgutil, warnings
warnings.simplefilter("error")
for root in ("odradek", "odradek_operator", "odradek_pipeline", "pyspark_odradek"):
    path = importlib.import_module(root).__path__
    for module in pkgutil.walk_packages(path, f"{root}."):
        # A job is a program for spark-submit.
        if not module.name.endswith("__main__") and ".jobs." not in module.name:
            importlib.import_module(module.name)
"""


def uses(text: str) -> Iterator[str]:
    """`module.name` of what a source takes from modules of the standard library, by getattr and hasattr too."""
    if any(f"import {module}\n" in text or f"import {module}," in text for module in _MODULES):
        yield from map(".".join, _USE.findall(text))
    for module, imported in _IMPORT.findall(text):
        yield from (f"{module}.{name.strip()}" for name in imported.split(","))


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """The product's sources by name."""
    return {named(path): path.read_text(encoding="utf-8") for path in sources(*PRODUCT)}


def test_names_of_linux_stand_in_their_doors_only(texts: dict[str, str]) -> None:
    only_linux = {*LISTED.read_text(encoding="ascii").split(), "os.sendfile"}
    found = {name: only_linux.intersection(uses(text)) for name, text in texts.items()}
    assert {name: names for name, names in found.items() if names} == DOORS


def test_what_is_one_systems_has_one_home(texts: dict[str, str]) -> None:
    found = {part: {name for name, text in texts.items() if part in text} for part in HOMES}
    assert found == HOMES


def test_a_use_is_found_in_any_form() -> None:
    source = 'import os\nfrom time import sleep, pause\nos.fork()\ngetattr(os, "NAME", 0)\n'
    assert set(uses(source)) == {"os.fork", "os.NAME", "time.sleep", "time.pause"}


@pytest.mark.thorough
def test_the_list_of_names_is_that_of_the_stubs() -> None:
    """Stubs change with mypy: `python -m tests.portable.linux_names` writes the list."""
    assert LISTED.read_text(encoding="ascii").split() == linux_names()


def test_a_portable_run_hides_them() -> None:
    program = "import os, select, selectors; print(hasattr(os, 'fdatasync'), hasattr(select, 'epoll'))"
    program += "; print(selectors.DefaultSelector.__name__, os.cpu_count() > 0)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(HIDDEN)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.split() == ["False", "False", "PollSelector", "True"]


@pytest.mark.thorough
def test_every_module_is_imported_without_them() -> None:
    path = os.pathsep.join([str(HIDDEN), *(str(ROOT / folder) for folder in PRODUCT)])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", IMPORT_ALL],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
