"""Which Kubernetes the suite runs on, and Odradek's images in it.

KUBECONFIG names a cluster: it is used as it is. Its nodes must have the images that `make images` builds, or pull them
from below ODRADEK_E2E_IMAGES (`registry.example/odradek`; a registry with ZooKeeper's image, too). Without KUBECONFIG
the one-node cluster beside the checkout is booted, given the images, and ended. Where there is neither, that is a skip,
in CI a failure. One suite at a time has that cluster; in CI one that an earlier run left is ended first.

`python -m e2e.boot` makes what can be made beforehand: the one-node cluster's programs and the images.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.locks import locked
from odradek.foundation.version import __version__

CHECKOUT = Path(__file__).resolve().parents[1]
ONE_NODE = Path(os.environ.get("ODRADEK_E2E_CLUSTER", CHECKOUT.parent / "shared" / "cluster"))
IMAGES = os.environ.get("ODRADEK_E2E_IMAGES", "localhost/odradek")
IMAGE_TAG = __version__
TARGETS = ("broker", "operator", "pipeline")
BASE_OF_THE_ONE_NODE = "localhost/base/python:3.11"
# The one-node cluster reaches no registry: its own ZooKeeper takes the name of the official image, which charts name.
ZOOKEEPER_OF_THE_ONE_NODE, OFFICIAL_ZOOKEEPER = (
    "localhost/base/zookeeper:3.8",
    "docker.io/library/zookeeper:3.9",
)
TO_BUILD = {"STORAGE_DRIVER": "overlay", "BUILDAH_ISOLATION": "chroot", "BASE": BASE_OF_THE_ONE_NODE}
BUILD_SECONDS_MAX = 2400
OTHER_SUITE_SECONDS_MAX = 1800.0
# Set where `python -m e2e.boot` has just run: building again, all of it cached, takes half a minute.
IMAGES_ARE_BUILT = "ODRADEK_E2E_IMAGES_ARE_BUILT"


class NoClusterError(Exception):
    """There is no Kubernetes to run on; the text says how to name one."""


class ClusterInUseError(Exception):
    """The one-node cluster runs already; the text says how to end or use it."""


def image(target: str) -> str:
    """An image by the name of its target: broker, operator, pipeline, or clients."""
    return f"{IMAGES}/{target}:{IMAGE_TAG}"


def registry() -> str:
    """The registry before `odradek/`, where it is another than the charts'; empty where it is theirs."""
    found = IMAGES.removesuffix("/odradek")
    return "" if found == "localhost" else found


@contextmanager
def kubernetes() -> Iterator[None]:
    """A cluster that KUBECONFIG and PATH point at; NoClusterError."""
    if os.environ.get("KUBECONFIG"):
        for tool in ("kubectl", "helm"):
            if shutil.which(tool) is None:
                raise NoClusterError(f"KUBECONFIG names a cluster, but there is no {tool} on PATH")
        yield
        return
    if not (ONE_NODE / "up").exists():
        raise NoClusterError(f"KUBECONFIG names no cluster, and there is none to boot at {ONE_NODE}")
    if not os.environ.get(IMAGES_ARE_BUILT):
        build_images()
    with locked(_state().with_suffix(".lock"), OTHER_SUITE_SECONDS_MAX):
        end_left_cluster()
        with _one_node():
            yield


@contextmanager
def _one_node() -> Iterator[None]:
    _say("booting the one-node Kubernetes")
    before = dict(os.environ)
    try:
        os.environ.update(TO_BUILD)  # for the documents' own `make images`
        os.environ.update(_exports(_run(ONE_NODE / "up", seconds_max=BUILD_SECONDS_MAX)))
        _say("loading images")
        _run(ONE_NODE / "load", *(image(target) for target in (*TARGETS, "clients")), seconds_max=600)
        name_image(ZOOKEEPER_OF_THE_ONE_NODE, OFFICIAL_ZOOKEEPER)
        yield
    finally:
        if os.environ.get("ODRADEK_E2E_KEEP"):
            _say(f"the cluster stays, for a look; {ONE_NODE}/down ends it")
        else:
            _end()
        os.environ.clear()
        os.environ.update(before)


def end_left_cluster() -> None:
    """End what an earlier run left of the one-node cluster, such as one that was killed.

    Raises ClusterInUseError where it still runs and CI is not `true`: its user may be looking at it.
    """
    state = _state()
    if not state.exists():
        return
    pid_files = sorted((state / "pids").glob("*"))
    running = [file for file in pid_files if _runs(file)]
    names = ", ".join(file.name for file in running)
    if running and os.environ.get("CI") != "true":
        raise ClusterInUseError(
            f"the one-node Kubernetes of an earlier run still runs {names}: "
            f"{ONE_NODE}/down ends it, or KUBECONFIG={state}/kubeconfig uses it"
        )
    for file in set(pid_files) - set(running):
        file.unlink()  # `down` would kill whichever process has that number now
    _say(f"ending what an earlier run left in {state}: {names or 'no process'}")
    _end()


def _runs(pid_file: Path) -> bool:
    """Whether the process in a file is the component that the file is named after."""
    try:
        command = Path("/proc", pid_file.read_text().strip(), "cmdline").read_bytes()
    except OSError:
        return False
    return Path(command.split(b"\0")[0].decode(errors="replace")).name == pid_file.name


def _end() -> None:
    """Run `down` to its end, also when Ctrl-C comes: half an end would keep the next run out."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        _run(ONE_NODE / "down", seconds_max=300)
    finally:
        signal.signal(signal.SIGINT, before)


def build_images() -> None:
    """The product's images and the one with stock clients, on the base that the one-node cluster's build makes."""
    _run(ONE_NODE / "build", seconds_max=BUILD_SECONDS_MAX)
    began = time.monotonic()
    _run(CHECKOUT / "scripts" / "images", seconds_max=1800, environment=TO_BUILD)
    build = [
        "buildah",
        "bud",
        "--layers",
        "--build-arg",
        f"BASE={BASE_OF_THE_ONE_NODE}",
        "--tag",
        image("clients"),
        ".",
    ]
    _run(*build, seconds_max=900, environment=TO_BUILD, folder=CHECKOUT / "e2e" / "clients")
    _say(f"images after {time.monotonic() - began:.0f} s")


def is_one_node() -> bool:
    """Whether KUBECONFIG names the one-node cluster: its containers and its node's ports can be reached from here."""
    return (_state() / "containerd.sock").exists() and str(_state()) in os.environ.get("KUBECONFIG", "")


def crash(container_id: str) -> None:
    """End a container's processes with SIGKILL, on the one-node cluster.

    Kubernetes has no way to do it: a pod that is deleted by force still gets the signal to stop, and two seconds.
    """
    _run(
        *_containerd(),
        "tasks",
        "kill",
        "-s",
        "KILL",
        container_id.removeprefix("containerd://"),
        seconds_max=30,
    )


def stop_for(container_id: str, seconds: float) -> None:
    """Stop a container's processes for a while, on the one-node cluster: they answer nothing, and stay connected."""
    task = container_id.removeprefix("containerd://")
    for sign, wait in (("STOP", seconds), ("CONT", 0.0)):
        _run(*_containerd(), "tasks", "kill", "--all", "-s", sign, task, seconds_max=30)
        time.sleep(wait)


def name_image(image: str, name: str) -> None:
    """Give an image that the one-node cluster has another name in it, without loading it again."""
    _run(*_containerd(), "images", "tag", image, name, seconds_max=60)


def _containerd() -> tuple[str, ...]:
    return ("ctr", "-a", str(_state() / "containerd.sock"), "-n", "k8s.io")


def _state() -> Path:
    return Path(os.environ.get("CLUSTER_DIR", "/tmp/cluster"))


def _exports(printed: str) -> dict[str, str]:
    """The variables of an `export NAME=VALUE …` line; $PATH stands for what it was."""
    found = re.findall(r"(KUBECONFIG|PATH)=(\S+)", printed)
    return {name: value.replace("$PATH", os.environ["PATH"]) for name, value in found}


def _run(
    *command: str | Path,
    seconds_max: float,
    environment: dict[str, str] | None = None,
    folder: Path | None = None,
) -> str:
    """Standard output of a program that must succeed; what it says of itself passes through."""
    done = subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        text=True,
        timeout=seconds_max,
        check=True,
        cwd=folder,
        env={**os.environ, **(environment or {})},
    )
    return done.stdout


def _say(text: str) -> None:
    print(f"e2e: {text}", file=sys.__stderr__, flush=True)


if __name__ == "__main__":
    build_images()
