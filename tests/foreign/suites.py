"""The suites of tests that others wrote and that are published with Maven: where each is, and how it is compiled for.

A suite is its jar of tests with what these need. Ours stands before Kafka's classes on the class path. `java/shadow`
has the classes by which a test gets its cluster, `java/keeper` how they ask for it, and `java/launcher` what runs tests
by name. All are compiled for each suite, since the interface between them changes from version to version.
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
_BOUNCY_CASTLE: Final = "1.80"  # certificates for tests with TLS
_LOG4J: Final = "2.24.3"
_SCALATEST: Final = "3.2.19"
# What Spark reaches inside Java.
_OPENED: Final = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
)
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
_ASKS: Final = ("org/apache/kafka/common/test/ClusterInstance", "org/apache/kafka/common/test/api/ClusterT")
# The same for Spark's: the class that starts a broker, and what extends a class that names it.
_ASKS_OF_SPARK: Final = (
    "kafka010/KafkaTestUtils",
    "KafkaMicroBatchV1SourceSuite",
    "KafkaMicroBatchV2SourceSuite",
    "KafkaRelationSuiteBase",
    "KafkaSinkBatchSuiteBase",
    "KafkaSourceStressForDontFailOnDataLossSuite",
)
# Connect's own clusters, of workers and of brokers.
_CONNECT: Final = "connect/util/clusters/Embedded"


class Suite(NamedTuple):
    """`jar` has the tests, in classes whose names end with one of `ends`; those that ask for a cluster name one of
    `asks`. `launcher_sources` and `shadow_sources` are folders of ours. `program` runs the tests, with `options` of
    Java's, and logs at `log_level`. They find what the jar has below the paths `unpacked` as files of a folder.
    """

    name: str
    version: str
    jar: str
    coordinates: Sequence[str]
    asks: Sequence[str]
    ends: Sequence[str] = ("Test.class", "TestImplicitSerdes.class")
    launcher_sources: str = "launcher"
    shadow_sources: str = "shadow"
    program: str = "odradek.foreign.Play"
    heap: str = "768m"
    options: Sequence[str] = ()
    unpacked: Sequence[str] = ()
    log_level: str = "error"

    @property
    def folder(self) -> Path:
        return _FOLDER / f"{self.name}-{self.version}"

    @property
    def allow_list(self) -> Path:
        return HERE / f"{self.name}.toml"

    def jars(self) -> str:
        """Class path of the suite alone. Raises JavaUnavailableError."""
        jars = fetched_jars(self.folder / "jars", self.coordinates)
        return f"{self._unpack(jars / self.jar)}:{jars}/*" if self.unpacked else f"{jars}/*"

    def _unpack(self, jar: Path) -> Path:
        folder = self.folder / "unpacked"
        with one_at_a_time(folder):
            if not folder.exists():
                made = folder.with_suffix(".new")
                with zipfile.ZipFile(jar) as opened:
                    opened.extractall(
                        made, [one for one in opened.namelist() if one.startswith(tuple(self.unpacked))]
                    )
                made.rename(folder)
        return folder

    def classes(self) -> list[str]:
        """The classes in the suite's own jar that may have tests, and ask for a cluster."""
        with zipfile.ZipFile(fetched_jars(self.folder / "jars", self.coordinates) / self.jar) as jar:
            names = [
                one.removesuffix(".class").replace("/", ".")
                for one in jar.namelist()
                if one.endswith(tuple(self.ends))
                and any(named.encode() in jar.read(one) for named in self.asks)
            ]
        return sorted(names)

    def launcher(self) -> str:
        """Class path with the launcher: tests get Kafka's own cluster."""
        return f"{self._compiled(self.launcher_sources)}:{self.jars()}"

    def shadowed(self) -> str:
        """Class path with the launcher and the shadow: tests get a cluster of Odradek."""
        return f"{self._compiled(self.shadow_sources, 'keeper')}:{self.launcher()}"

    def _compiled(self, part: str, *others: str) -> Path:
        """Our classes, compiled once for these sources and this version. Raises JavaUnavailableError."""
        sources = [one for name in (part, *others) for one in sorted((_SOURCES / name).rglob("*.java"))]
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


def _of_kafka(
    name: str,
    artifact: str,
    version: str,
    needs: Sequence[str] = (),
    asks: Sequence[str] = _ASKS,
    unpacked: Sequence[str] = (),
    log_level: str = "error",
) -> Suite:
    """A suite of the group org.apache.kafka, whose jar of tests is of the classifier `test`. `needs` is what it leaves
    out of its own dependencies: artifacts of that group, with a classifier where there is one.
    """
    of_kafka = [f"{artifact}:{version}:test"]
    of_kafka += [f"kafka-test-common-{one}:{version}" for one in ("runtime", "internal-api")]
    of_kafka += [f"kafka_2.13:{version}"]
    of_kafka += [f"{one}:{version}:test" for one in _BORROWED]
    for one in needs:
        needed, _, classifier = one.partition(":")
        of_kafka.append(f"{needed}:{version}" + (f":{classifier}" if classifier else ""))
    coordinates = [
        *(f"org.apache.kafka:{one}" for one in of_kafka),
        f"org.junit.jupiter:junit-jupiter:{_JUNIT}",
        f"org.junit.platform:junit-platform-launcher:{_PLATFORM}",
        f"org.mockito:mockito-junit-jupiter:{_MOCKITO}",
        f"org.hamcrest:hamcrest:{_HAMCREST}",
        f"org.bouncycastle:bcpkix-jdk18on:{_BOUNCY_CASTLE}",
        f"org.apache.logging.log4j:log4j-slf4j-impl:{_LOG4J}",
    ]
    return Suite(
        name,
        version,
        f"{artifact}-{version}-test.jar",
        coordinates,
        asks,
        unpacked=unpacked,
        log_level=log_level,
    )


def _of_spark(version: str) -> Suite:
    """The tests of Spark's connector, with ScalaTest."""
    own = [f"spark-{one}_2.13:{version}" for one in ("sql-kafka-0-10", "sql", "catalyst", "core")]
    with_tests = ("sql-kafka-0-10", "sql", "catalyst", "core", "common-utils", "token-provider-kafka-0-10")
    own += [f"spark-{one}_2.13:{version}:tests" for one in with_tests]
    return Suite(
        "spark",
        version,
        f"spark-sql-kafka-0-10_2.13-{version}-tests.jar",
        [
            *(f"org.apache.spark:{one}" for one in own),
            f"org.scalatest:scalatest_2.13:{_SCALATEST}",
            f"org.scalatestplus:mockito-5-12_2.13:{_SCALATEST}.0",
            "org.apache.kafka:kafka_2.13:3.9.0",  # its own tests' class names this version's broker
            "org.apache.hadoop:hadoop-minikdc:3.4.1",
        ],
        asks=_ASKS_OF_SPARK,
        ends=("Suite.class", "SuiteV1.class", "SuiteV2.class"),
        launcher_sources="spark-launcher",
        shadow_sources="spark-shadow",
        program="odradek.foreign.PlayScala",
        heap="1500m",
        unpacked=("kafka-source-", "structured-streaming/"),
        options=("-Dspark.testing=true", *(f"--add-opens={one}=ALL-UNNAMED" for one in _OPENED)),
    )


SUITES: Final = (
    _of_kafka("clients", "kafka-clients-integration-tests", "4.3.1"),
    _of_kafka(
        "tools",
        "kafka-tools",
        "4.1.1",
        ("kafka-tools", "kafka-streams", "kafka-streams:test", "connect-runtime:test"),
    ),
    _of_kafka(
        "streams",
        "kafka-streams-integration-tests",
        "4.3.1",
        (
            "kafka-streams",
            "kafka-streams:test",
            "kafka-streams-test-utils",
            "kafka-streams-scala_2.13",
            "kafka-tools",
        ),
        ("integration/utils/EmbeddedKafkaCluster", "StreamToTableJoinScalaIntegrationTestBase"),
        log_level="info",  # some of its tests read the log
    ),
    _of_kafka(
        "connect",
        "connect-runtime",
        "4.3.1",
        (
            "connect-runtime",
            "connect-file",
            "connect-json",
            "connect-transforms",
            "connect-test-plugins",
            "kafka-tools",
        ),
        (_CONNECT,),
        unpacked=("test-plugins/",),
        log_level="warn",  # one of its tests reads the log
    ),
    _of_kafka(
        "mirror",
        "connect-mirror",
        "4.3.1",
        ("connect-mirror", "connect-mirror-client", "connect-runtime:test", "kafka-tools"),
        (_CONNECT, "MirrorConnectorsIntegrationBaseTest"),
    ),
    _of_spark("4.0.0"),
)


def suite_named(name: str) -> Suite:
    return next(suite for suite in SUITES if suite.name == name)


def bring_suites() -> None:
    """Fetch all suites, and compile ours for each."""
    for suite in SUITES:
        suite.shadowed()
