"""The image that a Cluster runs, its version, and whether it may run."""

from __future__ import annotations

from dataclasses import dataclass

from odradek.foundation.version import __version__
from odradek_operator.desired.names import BROKER
from odradek_operator.foundation import versions
from odradek_operator.gateways.kubernetes import Json
from odradek_operator.resources.cluster import ClusterSpec
from odradek_operator.resources.cluster_status import ClusterStatus


def image_of(spec: ClusterSpec, default: str) -> str:
    """The image of brokers and controllers; empty when none is named."""
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


def release_of(spec: ClusterSpec, default: str) -> str | None:
    """The version that the image is said to be; None where nothing says so.

    A default image whose tag is no version came with this operator, and is of its version.
    """
    tag = _tag(image_of(spec, default))
    if versions.is_version(tag):
        return tag
    if spec.version is not None:
        return spec.version
    return __version__ if spec.image is None else None


class ImageRefused(Exception):
    """A Cluster that has no brokers yet wants an image that may not run."""

    is_expected = True

    def __init__(self, refused: versions.RefusedImage) -> None:
        super().__init__(refused.message)
        self.refused = refused


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageChoice:
    """The image that brokers and controllers run now. Where the wanted one is `refused`, it is the one they have."""

    image: str
    newest_version: str | None
    refused: versions.RefusedImage | None = None


def newest_version(before: ClusterStatus) -> str | None:
    """The newest version that brokers have run; None where none has, or where nothing says which."""
    known = before.newest_version or before.version
    return known if versions.is_version(known) else None


def choose_image(
    spec: ClusterSpec, default: str, before: ClusterStatus, stateful_set: Json | None
) -> ImageChoice:
    """The image that runs. Raises ImageRefused where the wanted image may not run and there is no other."""
    newest = newest_version(before)
    refused = refusal_of(spec, default, newest)
    if refused is None:
        newest = versions.newer_of(newest, release_of(spec, default))
        return ImageChoice(image=image_of(spec, default), newest_version=newest)
    if stateful_set is None:
        raise ImageRefused(refused)
    containers = stateful_set["spec"]["template"]["spec"]["containers"]
    running = next(one["image"] for one in containers if one["name"] == BROKER)
    return ImageChoice(image=running, newest_version=before.newest_version, refused=refused)


def refusal_of(spec: ClusterSpec, default: str, newest: str | None) -> versions.RefusedImage | None:
    """Why the wanted image may not run where brokers of the version `newest` have run; None where it may."""
    return versions.check(image=image_of(spec, default), wanted=release_of(spec, default), newest=newest)
