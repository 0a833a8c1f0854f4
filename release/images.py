"""`python -m release.images`: the sizes of the images that `make images` has built, and a bill of each.

    python -m release.images FOLDER      writes FOLDER/NAME-image.cdx.json, and prints the sizes

Sizes are of what the Dockerfile adds to its base: the base is on most nodes already, and others choose it. Bytes to
pull are of the layers as a registry has them, compressed. It needs buildah, and the right to mount an image.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from release import bills, version
from release.build import commit_time
from release.commands import ReleaseError, run

NAMES: Final = ("broker", "operator", "pipeline")
_CHUNK_BYTES: Final = 1 << 20


class ImageSize(NamedTuple):
    """Bytes that an image has beside its base: on a disk, and to pull."""

    disk: int
    pull: int


def main(arguments: list[str], checkout: Path = version.CHECKOUT) -> int:
    """Measure the images, and write their bills; the exit code."""
    if len(arguments) != 1:
        print("usage: python -m release.images FOLDER", file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    declared = version.declared(checkout)
    try:
        for name in NAMES:
            image = f"localhost/odradek/{name}:{declared}"
            size = measure(image)
            bill = folder / f"{name}-image{bills.BILL_SUFFIX}"
            components = read_components(image)
            bill.write_text(
                bills.write_bill(
                    f"odradek-{name}-image", declared, components, seconds=int(commit_time(checkout))
                )
            )
            print(
                f"{name}: {size.disk / 1e6:.0f} MB beside its base, {size.pull / 1e6:.0f} MB to pull; "
                f"{len(components)} packages in {bill}"
            )
    except ReleaseError as failure:
        print(f"release: {failure}", file=sys.stderr)
        return 1
    return 0


def read_components(image: str) -> list[bills.Component]:
    """The packages of an image: Debian's and Python's. Raises ReleaseError."""
    with _mounted(image) as root:
        found = bills.debian_components((root / "var/lib/dpkg/status").read_text(errors="replace"))
        for site in sorted(root.glob("opt/odradek/lib/python*/site-packages")):
            found += bills.python_components(site)
    return found


@contextmanager
def _mounted(image: str) -> Iterator[Path]:
    here = Path.cwd()
    container = run(["buildah", "from", "--pull-never", image], folder=here).strip()
    try:
        yield Path(run(["buildah", "mount", container], folder=here).strip())
    finally:
        run(["buildah", "rm", container], folder=here)


def measure(image: str) -> ImageSize:
    """The sizes of the layers that the Dockerfile adds. Raises ReleaseError."""
    with tempfile.TemporaryDirectory(prefix="odradek-image-") as name:
        folder = Path(name)
        run(["buildah", "push", "--quiet", image, f"oci:{folder}/image"], folder=folder)
        blobs = folder / "image" / "blobs" / "sha256"
        index = json.loads((folder / "image" / "index.json").read_text())
        manifest = json.loads(_blob(blobs, index["manifests"][0]).read_text())
        layers = json.loads(_blob(blobs, manifest["config"]).read_text())["rootfs"]["diff_ids"]
        base = _list_base_layers()
        if layers[: len(base)] != base:
            raise ReleaseError(f"{image} does not stand on {_base()}: name its base by the variable BASE")
        own = manifest["layers"][len(base) :]
        disk = sum(_unpacked_bytes(_blob(blobs, layer)) for layer in own)
        return ImageSize(disk=disk, pull=sum(layer["size"] for layer in own))


def _blob(blobs: Path, described: dict[str, Any]) -> Path:
    return blobs / str(described["digest"]).partition(":")[2]


def _unpacked_bytes(layer: Path) -> int:
    with gzip.open(layer) as unpacked:
        return sum(map(len, iter(lambda: unpacked.read(_CHUNK_BYTES), b"")))


def _list_base_layers() -> list[str]:
    found = json.loads(run(["buildah", "inspect", "--type", "image", _base()], folder=Path.cwd()))
    layers: list[str] = found["OCIv1"]["rootfs"]["diff_ids"]
    return layers


def _base() -> str:
    """The base of the images, as scripts/images takes it."""
    declared = re.search(r"^ARG BASE=(\S+)$", (version.CHECKOUT / "Dockerfile").read_text(), re.MULTILINE)
    assert declared is not None
    return os.environ.get("BASE", declared[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
