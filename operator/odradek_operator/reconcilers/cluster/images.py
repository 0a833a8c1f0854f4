"""Which image a Cluster runs, and what version that is."""

from __future__ import annotations

from odradek_operator.resources.cluster import ClusterSpec


def image_of(spec: ClusterSpec, default: str) -> str:
    """The image of brokers and controllers; empty when nobody names one."""
    image = spec.image or default
    if not image or spec.version is None:
        return image
    if spec.image is not None and version_of(spec.image):
        return image
    name = image.partition("@")[0]
    tag = _tag(name)
    return f"{name.removesuffix(':' + tag) if tag else name}:{spec.version}"


def version_of(image: str) -> str | None:
    """The tag of an image, or the digest that it is named by."""
    name, at, digest = image.partition("@")
    return _tag(name) or (digest if at else None)


def _tag(image: str) -> str:
    name = image.partition("@")[0]
    last = name.rpartition("/")[2]
    return last.partition(":")[2]
