"""Starts one of our processes from another: the same Python, and the same copy of this package.

`python -m` puts the current directory first on the module path. A folder `odradek/` there, such as a clone or a data
directory, would replace this package. `-P` keeps the directory off (Python 3.11, "safe path").

Only the standard library's lightest modules are imported: `odradek start` and the tests' broker pay for each.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path


def command(module: str, *arguments: str) -> list[str]:
    """The command line that runs `module` of this package with `arguments`."""
    return [sys.executable, "-P", "-m", module, *arguments]


def environment() -> dict[str, str]:
    """This process's environment, with the folder that holds this package on the module path.

    An installed package needs no help, and its folder must not precede the standard library. A package that is run from
    its source would not be found otherwise.
    """
    source = str(Path(__file__).resolve().parents[2])
    installed = {str(Path(sysconfig.get_path(name)).resolve()) for name in ("purelib", "platlib")}
    if source in installed:
        return dict(os.environ)
    path = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": source if not path else f"{source}{os.pathsep}{path}"}
