"""Programs and jars of others that tests need: `python -m tests.tools` brings what is not there, before tests begin.

    python -m tests.tools                            all of them, in half an hour where Go has built nothing
    python -m tests.tools spark-connector tables     these
    python -m tests.tools --list                     what there is, and where it is from

No test fetches or builds: one that misses a tool is skipped, and fails in CI. Everything is below `.cache/`, or was on
the machine. Jars are from Maven's repository, by Maven, or else by the Ivy that PySpark has. Programs are built by Go;
Prometheus is Debian's, and one script is of npm.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from tests.foreign.suites import bring_suites
from tests.support import java
from tests.support.class_archives import one_at_a_time
from tests.support.peers import in_ci
from tests.support.programs import (
    AXE,
    AXE_VERSION,
    BUILT,
    COMPOSE_SCHEMA,
    COMPOSE_VERSION,
    ETCD_VERSION,
    HELM_VERSION,
    KUBERNETES_VERSION,
    UnavailableError,
    find_program,
)
from tests.support.schema_registry import bring_schema_registry
from tests.support.spark_archive import write_spark_archive

CHECKOUT: Final = Path(__file__).resolve().parents[1]
FRANZ_GO: Final = CHECKOUT / "tests" / "compat" / "franz-go" / "run"
_BUILD_SECONDS_MAX: Final = 3600
_GO_FLAGS: Final = "-buildvcs=false -trimpath"


class Tool(NamedTuple):
    """One tool. `bring` returns at once where it is there; it raises UnavailableError or JavaUnavailableError."""

    name: str
    source: str
    bring: Callable[[], object]


def helm() -> None:
    """Helm alone."""
    if find_program("helm") is None:
        _go("install", "-ldflags", "-s -w", f"helm.sh/helm/v3/cmd/helm@{HELM_VERSION}", GOBIN=str(BUILT))


def etcd() -> None:
    """etcd as it is released, which is no program of `go install`: its module names replacements."""
    if find_program("etcd") is None:
        folder = _module("etcd")
        _go("get", f"go.etcd.io/etcd/server/v3@{ETCD_VERSION}", folder=folder)
        _build(folder, "etcd", "go.etcd.io/etcd/server/v3")


def kubernetes() -> None:
    """The API server and kubectl. A module that requires Kubernetes has to repeat its replacements."""
    missing = [name for name in ("kube-apiserver", "kubectl") if find_program(name) is None]
    if not missing:
        return
    folder = _module("kubernetes")
    module = f"k8s.io/kubernetes@{KUBERNETES_VERSION}"
    downloaded = json.loads(_go("mod", "download", "-json", module, folder=folder))
    staging = "v0" + KUBERNETES_VERSION.removeprefix("v1")
    staged = re.findall(
        r"^\s*(k8s\.io/[\w.-]+) => \./staging", Path(downloaded["GoMod"]).read_text(), re.MULTILINE
    )
    _go("mod", "edit", *(f"-replace={one}={one}@{staging}" for one in staged), folder=folder)
    _go("get", module, folder=folder)
    version = f"-X k8s.io/component-base/version.gitVersion={KUBERNETES_VERSION}"
    for name in missing:
        _build(folder, name, f"k8s.io/kubernetes/cmd/{name}", version)


def franz_go() -> None:
    """franz-go's own tests, and the program that logs in."""
    for part in ("--build-only", "--login-program"):
        _run([sys.executable, str(FRANZ_GO), part])


def compose_schema() -> None:
    """The schema of Compose files, which is a file of the module that Compose reads them by."""
    if COMPOSE_SCHEMA.exists():
        return
    module = f"github.com/compose-spec/compose-go/v2@{COMPOSE_VERSION}"
    folder = json.loads(_go("mod", "download", "-json", module))["Dir"]
    COMPOSE_SCHEMA.parent.mkdir(parents=True, exist_ok=True)
    COMPOSE_SCHEMA.write_bytes((Path(folder) / "schema" / "compose-spec.json").read_bytes())


def axe() -> None:
    """The rules of accessibility that the console's pages are held to."""
    if AXE.exists():
        return
    AXE.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        _run(["npm", "pack", "--silent", f"axe-core@{AXE_VERSION}"], folder=Path(folder))
        (packed,) = Path(folder).glob("*.tgz")
        with tarfile.open(packed) as archive:
            script = archive.extractfile("package/axe.min.js")
            assert script is not None
            AXE.write_bytes(script.read())


def prometheus() -> None:
    """promtool and Prometheus of Debian's package, which is unpacked and not installed: no service is started."""
    names = ("promtool", "prometheus")
    if all(find_program(name) for name in names):
        return
    BUILT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILT.parent) as folder:
        try:
            _run(["apt-get", "download", "prometheus"], folder=Path(folder))
        except UnavailableError:
            # A new machine has no lists of packages, and only root may fetch them.
            _run(["apt-get", "update", "-qq"])
            _run(["apt-get", "download", "prometheus"], folder=Path(folder))
        (package,) = Path(folder).glob("*.deb")
        _run(["dpkg-deb", "--extract", str(package), folder])
        for name in names:
            shutil.move(Path(folder, "usr", "bin", name), BUILT / name)


def _module(name: str) -> Path:
    """An empty module to build in."""
    folder = BUILT.parent / "modules" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "go.sum").unlink(missing_ok=True)
    (folder / "go.mod").write_text(f"module {name}\n")
    return folder


def _build(folder: Path, name: str, package: str, link: str = "") -> None:
    _go("build", "-mod=mod", "-ldflags", f"-s -w {link}", "-o", str(BUILT / name), package, folder=folder)


def _go(*arguments: str, folder: Path | None = None, **environment: str) -> str:
    BUILT.mkdir(parents=True, exist_ok=True)
    variables = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": _GO_FLAGS, **environment}
    return _run(["go", *arguments], folder=folder or BUILT, environment=variables)


def _run(
    command: Sequence[str], *, folder: Path | None = None, environment: dict[str, str] | None = None
) -> str:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_BUILD_SECONDS_MAX,
            check=False,
        )
    except FileNotFoundError:
        where = ": https://go.dev/doc/install" if command[0] == "go" else ""
        raise UnavailableError(f"there is no {command[0]} on this machine{where}") from None
    if done.returncode != 0:
        said = (done.stdout + done.stderr)[-2000:]
        raise UnavailableError(f"`{' '.join(command)}` ended with {done.returncode}: {said}")
    return done.stdout


_JARS: Final = "jars of Maven's repository"
_TEST_JARS: Final = f"{_JARS}, by Maven only"
TOOLS: Final = (
    Tool("spark-connector", _JARS, java.connector_jars),
    Tool("tables", f"{_JARS}: Delta and Iceberg for Spark", java.table_jars),
    Tool("spark-avro", _JARS, java.avro_jars),
    Tool("hdfs", f"{_JARS}: Hadoop {java.HADOOP_VERSION}", java.hdfs_classpath),
    Tool("kafka", f"{_JARS}: Apache Kafka {java.KAFKA_VERSION}", java.kafka_classpath),
    Tool("kafka-4.4", _JARS, partial(java.kafka_classpath, java.KAFKA_NEWEST_VERSION)),
    Tool("kafka-3.9", _JARS, partial(java.kafka_classpath, java.KAFKA_OLD_VERSION)),
    Tool("kafka-1.1", _JARS, java.first_kafka_classpath),
    Tool("kafka-0.8", f"{_JARS}: ConsumerOffsetChecker", java.checker_classpath),
    Tool("kafka-connect", _JARS, java.connect_classpath),
    Tool("mirror-client", _JARS, java.mirror_client_classpath),
    Tool("mirror-maker", _JARS, java.mirror_maker_classpath),
    Tool("kafka-tests", _TEST_JARS, java.kafka_tests_classpath),
    Tool("kafka-streams", _TEST_JARS, java.streams_tests_classpath),
    Tool(
        "kafka-streams-4.2",
        _TEST_JARS,
        partial(java.streams_tests_classpath, java.KAFKA_STREAMS_GROUPS_VERSION),
    ),
    Tool("kafka-streams-4.4", _JARS, java.streams_classpath),
    Tool("foreign", "jars of Maven's repository, by Maven only: the suites of tests/foreign", bring_suites),
    Tool("schema-registry", "an archive of Maven's repository: Apicurio Registry", bring_schema_registry),
    Tool("spark-classes", "an archive of classes that Spark's Java writes", write_spark_archive),
    Tool("axe", f"axe-core {AXE_VERSION} of npm", axe),
    Tool("prometheus", "Debian's package, unpacked: promtool, and Prometheus itself", prometheus),
    Tool("helm", f"helm.sh/helm {HELM_VERSION}, built by Go", helm),
    Tool("franz-go", "github.com/twmb/franz-go with its tests, built by Go", franz_go),
    Tool("compose-schema", f"github.com/compose-spec/compose-go {COMPOSE_VERSION}, by Go", compose_schema),
    Tool("etcd", f"go.etcd.io/etcd {ETCD_VERSION}, built by Go", etcd),
    Tool(
        "kubernetes",
        f"k8s.io/kubernetes {KUBERNETES_VERSION}: kube-apiserver and kubectl, built by Go",
        kubernetes,
    ),
)


def bring(names: Sequence[str]) -> int:
    """Have tools, each a line of what it took. The exit code: 1 where one could not be had."""
    failed = 0
    for tool in TOOLS:
        if names and tool.name not in names:
            continue
        began = time.monotonic()
        try:
            with one_at_a_time(java.CACHE / "tools" / tool.name):
                tool.bring()
            print(f"{tool.name}: {time.monotonic() - began:.0f} s", flush=True)
        except (UnavailableError, java.JavaUnavailableError) as error:
            print(f"{tool.name}: {error}", file=sys.stderr, flush=True)
            failed = 1
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="TOOL", help="one of those that --list shows")
    parser.add_argument("--list", action="store_true", help="print all tools and their sources")
    parser.add_argument(
        "--where-possible", action="store_true", help="outside of CI, end with 0 where one cannot be had"
    )
    arguments = parser.parse_args()
    if arguments.list:
        for tool in TOOLS:
            print(f"{tool.name:16} {tool.source}")
        return 0
    if unknown := set(arguments.names) - {tool.name for tool in TOOLS}:
        parser.error(f"there is no tool {', '.join(sorted(unknown))}; --list shows all")
    failed = bring(arguments.names)
    if failed and arguments.where_possible and not in_ci():
        print("The tests that need it are skipped.", file=sys.stderr, flush=True)
        return 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
