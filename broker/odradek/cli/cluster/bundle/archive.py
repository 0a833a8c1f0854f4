"""The file of a support bundle: texts and documents without secrets, within bounds, and a manifest of them.

Each text passes the masks before it is written, and the pseudonyms where they are wanted. Nothing else writes here.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final

from odradek.cli.cluster.bundle.masking import MASK, mask_document, mask_text
from odradek.cli.cluster.bundle.pseudonyms import NameCover
from odradek.cli.shared.output import count, plain
from odradek.foundation.support_limits import SUPPORT_BYTES_MAX, SUPPORT_FILE_BYTES_MAX
from odradek.foundation.version import __version__

MANIFEST: Final = "manifest.json"
_SHORTENED: Final = "\n[shortened: the file has its bound of bytes]\n"


class BundleArchive:
    """Writes `path`, which must not exist, readable by its owner only. `cover` has the pseudonyms.

    With `covers_all` each known name is replaced; without it only those that were added for their looks.
    """

    def __init__(self, path: Path, *, root: str, cover: NameCover, covers_all: bool) -> None:
        """Raises FileExistsError and other OSErrors."""
        self._path = path
        self._root = root
        self.cover = cover
        self.covers_all = covers_all
        self._left_bytes = SUPPORT_BYTES_MAX
        self._files: list[dict[str, object]] = []
        self._left_out: list[dict[str, str]] = []
        self._masked = 0
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._file = os.fdopen(descriptor, "wb")
        self._tar = tarfile.open(fileobj=self._file, mode="w:gz")  # noqa: SIM115 (closed by `__exit__`)

    def __enter__(self) -> BundleArchive:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._write_manifest()
            self._tar.close()
            self._file.close()
        finally:
            if kind is not None:
                self._path.unlink(missing_ok=True)

    @property
    def files(self) -> list[str]:
        """The names of the files so far."""
        return [str(one["file"]) for one in self._files]

    @property
    def left_out(self) -> list[dict[str, str]]:
        """What is not in the bundle, and why."""
        return self._left_out

    def leave_out(self, what: str, why: str) -> None:
        """Note in the manifest that something is not there."""
        self._left_out.append({"what": self._clean(what), "why": self._clean(why)})

    def add_document(self, name: str, document: object) -> None:
        """Write a document as JSON. One that is too large is shortened as a text is."""
        masked = mask_document(plain(document))
        covered = self.cover.cover_document(masked) if self.covers_all else _cover_some(masked, self.cover)
        self._write(name, json.dumps(covered, indent=1, ensure_ascii=False, default=str) + "\n")

    def add_text(self, name: str, text: str, *, is_log: bool = False) -> None:
        """Write a text. With pseudonyms, what a log has in quotes gets one, too."""
        self._write(name, self._clean(text, is_log=is_log))

    def add_failure(self, name: str, failure: BaseException | str) -> None:
        """Write a text in place of a part, which says why it is not there."""
        words = f"{type(failure).__name__}: {failure}" if isinstance(failure, BaseException) else failure
        self.leave_out(name, words)
        self.add_text(f"{name}.failed.txt", f"{name} could not be had.\n{words}\n")

    def _clean(self, text: str, *, is_log: bool = False) -> str:
        text = self.cover.cover(mask_text(text))
        if self.covers_all:
            text = self.cover.cover_addresses(text)
            text = self.cover.cover_quotes(text) if is_log else text
        return text

    def _write(self, name: str, text: str) -> None:
        data = text.encode(errors="replace")
        limit = min(SUPPORT_FILE_BYTES_MAX, self._left_bytes)
        if not limit:
            self._left_out.append({"what": name, "why": "the bundle has its bound of bytes"})
            return
        if len(data) > limit:
            self.leave_out(f"the end of {name}", f"of {count(len(data), 'byte')} it has {limit}")
            data = data[:limit].decode(errors="ignore").encode() + _SHORTENED.encode()
        self._left_bytes = max(self._left_bytes - len(data), 0)
        self._masked += text.count(MASK)
        self._files.append({"file": name, "bytes": len(data), "masked": text.count(MASK)})
        self._add(name, data)

    def _add(self, name: str, data: bytes) -> None:
        member = tarfile.TarInfo(f"{self._root}/{name}")
        member.size, member.mode, member.mtime = len(data), 0o600, int(time.time())
        self._tar.addfile(member, io.BytesIO(data))

    def _write_manifest(self) -> None:
        manifest = {
            "odradek": __version__,
            "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "are_names_redacted": self.covers_all,
            "names_with_pseudonyms": self.cover.names,
            "masked": self._masked,
            "files": self._files,
            "left_out": [
                *self._left_out,
                {"what": "records", "why": "a bundle never has keys, values or headers of records"},
                {"what": "names of users in ACLs, credentials and quotas", "why": "they are only counted"},
                {
                    "what": "secrets",
                    "why": f"they are replaced by {MASK}; look through the files before you send them",
                },
            ],
        }
        self._add(MANIFEST, (json.dumps(manifest, indent=1, ensure_ascii=False) + "\n").encode())


def _cover_some(value: object, cover: NameCover) -> object:
    """The document with pseudonyms for the few names that were added, and addresses as they are."""
    return _map_texts(value, cover.cover) if cover.names else value


def _map_texts(value: object, change: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _map_texts(one, change) for key, one in value.items()}
    return [_map_texts(one, change) for one in value] if isinstance(value, list) else value
