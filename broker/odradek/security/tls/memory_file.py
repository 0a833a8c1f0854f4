"""A file for a library that reads from files only, with content that should be nowhere else.

On Linux it is in memory and has no name. Elsewhere it is in a folder that only this user may enter, and is removed
after use.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_NAME: Final = "odradek-key"


@contextmanager
def memory_file(content: bytes) -> Iterator[str]:
    """The path of a file with `content`, while the context lasts. Raises OSError."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create(_NAME), "wb") as opened:
            opened.write(content)
            opened.flush()
            yield f"/proc/self/fd/{opened.fileno()}"
        return
    import tempfile

    with tempfile.TemporaryDirectory(prefix=f"{_NAME}-") as folder:
        path = Path(folder, _NAME)
        # Made for this user alone, whatever the umask is.
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
            opened.write(content)
        yield str(path)
