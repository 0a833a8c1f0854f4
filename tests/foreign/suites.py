"""The suites of tests that others wrote and that are published with Maven: where each is, and how it is compiled for.

A suite is its jar of tests with what these need. Ours stands before Kafka's classes on the class path. `java/shadow`
has the class by which a test gets its cluster, and `java/launcher` what runs tests by name. Both are compiled for each
suite, since the interface between them changes from version to version.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.support.class_archives import one_at_a_time
from tests.support.java import CACHE, JavaUnavailableError, fetched_jars, java_command, java_environment

HERE: Final = Path(__file__).resolve().parent
_SOURCES: Final = HERE / "java"
_FOLDER: Final = CACHE / "foreign"
_COMPILE_SECONDS_MAX: Final = 300
_JUNIT: Final = "5.13.1"
_PLATFORM: Final = "1.13.1"
_MOCKITO: Final = "5.14.2"
_HAMCREST: Final = "3.0"
_LOG4J: Final = "2.24.3"
# Kafka's own classes for tests, from which its suites borrow.
_BORROWED: Final = (
    "kafka-clients",
    "kafka-server-common",
    "kafka-server",
    "kafka_2.13",
    "kafka-group-coordinator",
    "kafka-storage",
)
# What a class names that asks for a cluster.
_ASKS: Final = (b"org/apache/kafka/common/test/ClusterInstance", b"org/apache/kafka/common/test/api/ClusterT")


class Suite(NamedTuple):
    """`artifact` is of the group org.apache.kafka, its jar of tests is of the classifier `test`. `needs` is what it
    leaves out of its own dependencies: artifacts of that group, with a classifier where there is one.
    """

    name: str
    artifact: str
    version: str
    needs: Sequence[str] = ()

    @property
    def coordinates(self) -> list[str]:
        of_kafka = [f"{self.artifact}:{self.version}:test"]
        of_kafka += [f"kafka-test-common-{name}:{self.version}" for name in ("runtime", "internal-api")]
        of_kafka += [f"kafka_2.13:{self.version}"]
        of_kafka += [f"{name}:{self.version}:test" for name in _BORROWED]
        for one in self.needs:
            name, _, classifier = one.partition(":")
            of_kafka.append(f"{name}:{self.version}" + (f":{classifier}" if classifier else ""))
        return [
            *(f"org.apache.kafka:{one}" for one in of_kafka),
            f"org.junit.jupiter:junit-jupiter:{_JUNIT}",
            f"org.junit.platform:junit-platform-launcher:{_PLATFORM}",
            f"org.mockito:mockito-junit-jupiter:{_MOCKITO}",
            f"org.hamcrest:hamcrest:{_HAMCREST}",
            f"org.apache.logging.log4j:log4j-slf4j-impl:{_LOG4J}",
        ]

    @property
    def folder(self) -> Path:
        return _FOLDER / f"{self.name}-{self.version}"

    @property
    def allow_list(self) -> Path:
        return HERE / f"{self.name}.toml"

    def jars(self) -> str:
        """Class path of the suite alone. Raises JavaUnavailableError."""
        return f"{fetched_jars(self.folder / 'jars', self.coordinates)}/*"

    def classes(self) -> list[str]:
        """The classes in the suite's own jar that may have tests, and ask for a cluster."""
        jars = Path(self.jars().removesuffix("/*"))
        with zipfile.ZipFile(jars / f"{self.artifact}-{self.version}-test.jar") as jar:
            names = [
                one.removesuffix(".class").replace("/", ".")
                for one in jar.namelist()
                if one.endswith("Test.class") and any(named in jar.read(one) for named in _ASKS)
            ]
        return sorted(names)

    def launcher(self) -> str:
        """Class path with the launcher: tests get Kafka's own cluster."""
        return f"{self._compiled('launcher')}:{self.jars()}"

    def shadowed(self) -> str:
        """Class path with the launcher and the shadow: tests get a cluster of Odradek."""
        return f"{self._compiled('shadow')}:{self.launcher()}"

    def _compiled(self, part: str) -> Path:
        """Our classes, compiled once for these sources and this version. Raises JavaUnavailableError."""
        sources = sorted((_SOURCES / part).rglob("*.java"))
        digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
        folder = self.folder / f"{part}-{digest}"
        with one_at_a_time(self.folder / part):
            if not folder.exists():
                made = folder.with_suffix(".new")
                shutil.rmtree(made, ignore_errors=True)
                _compile(sources, made, self.jars())
                made.rename(folder)
        return folder


def _compile(sources: Sequence[Path], folder: Path, classpath: str) -> None:
    compiler = shutil.which("javac") or str(Path(java_command()).resolve().with_name("javac"))
    if not Path(compiler).exists():
        raise JavaUnavailableError("there is no javac on this machine: install a JDK of 17 or newer")
    done = subprocess.run(
        [compiler, "-nowarn", "-Xlint:-deprecation", "-d", str(folder), "-cp", classpath, *map(str, sources)],
        capture_output=True,
        text=True,
        timeout=_COMPILE_SECONDS_MAX,
        check=False,
        env=java_environment(),
    )
    if done.returncode != 0:
        raise AssertionError(f"{', '.join(map(str, sources))} cannot be compiled:\n{done.stderr[-4000:]}")


SUITES: Final = (
    Suite("clients", "kafka-clients-integration-tests", "4.3.1"),
    Suite(
        "tools",
        "kafka-tools",
        "4.1.1",
        ("kafka-tools", "kafka-streams", "kafka-streams:test", "connect-runtime:test"),
    ),
)


def suite_named(name: str) -> Suite:
    return next(suite for suite in SUITES if suite.name == name)


def bring_suites() -> None:
    """Fetch all suites, and compile ours for each."""
    for suite in SUITES:
        suite.shadowed()
