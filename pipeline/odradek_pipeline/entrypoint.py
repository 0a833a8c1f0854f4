"""The command `odradek-pipeline`: its subcommands, and the image's entry point, which Spark on Kubernetes starts.

`driver` and `executor` are what Spark asks a container to be. Another word is a program, which is run as it is.

Spark hands a driver its arguments and an executor its environment, and leaves it to the image to make a command line
of them. The process is replaced, so that signals reach the JVM. What a JVM and Python write of themselves goes to the
scratch volume that Spark mounts: the root file system may be read-only.

Left out: choosing memory and ports. Spark writes them into the configuration and the environment.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

USAGE = "usage: odradek-pipeline COMMAND OPTION… | driver ARGUMENT… | executor | PROGRAM ARGUMENT…"
_HELP = """
In the pipeline's image also:
  driver      what Spark on Kubernetes starts to submit a job; ARGUMENTs are spark-submit's
  executor    what Spark on Kubernetes starts to run tasks; its environment says how
  PROGRAM     any other program, run as it is"""
_EXECUTOR_CLASS = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_JAVA_OPTION = re.compile(r"SPARK_JAVA_OPT_(\d+)")

# What an executor gets in its environment, as its command line wants it.
_EXECUTOR_ARGUMENTS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}


class EntryError(Exception):
    """The container was not started as Spark starts it; the text says what is missing."""


def build_command(arguments: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """The program to become and its arguments; EntryError when something that Spark always sets is not there."""
    match arguments:
        case ["driver", *rest]:
            return _build_driver_command(rest, environ)
        case ["executor", *_]:
            return _build_executor_command(environ)
        case [program, *_] if not program.startswith("-"):
            if shutil.which(program, path=environ.get("PATH")) is None:
                raise EntryError(_describe_unknown(program))
            return list(arguments)
        case _:
            raise EntryError(USAGE)


def _describe_unknown(word: str) -> str:
    from odradek.foundation.words import nearest_name
    from odradek_pipeline.cli.table import COMMANDS, GROUPS

    nearest = nearest_name(word, ("driver", "executor", *GROUPS, *COMMANDS))
    hint = "`odradek-pipeline --help` lists the commands" if nearest is None else f"did you mean {nearest!r}?"
    return f"there is no command {word!r}, and no program of that name; {hint}"


def _build_driver_command(rest: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Submitted a second time, now from inside: in client mode, bound to the pod's own address."""
    submit = f"{_require_variable(environ, 'SPARK_HOME')}/bin/spark-submit"
    bound = f"spark.driver.bindAddress={_require_variable(environ, 'SPARK_DRIVER_BIND_ADDRESS')}"
    return [submit, "--deploy-mode", "client", "--conf", bound, *rest]


def _build_executor_command(environ: Mapping[str, str]) -> list[str]:
    memory = _require_variable(environ, "SPARK_EXECUTOR_MEMORY")
    folders = [f"{_require_variable(environ, 'SPARK_HOME')}/jars/*"]
    if configured := environ.get("SPARK_CONF_DIR"):
        folders.insert(0, configured)
    if extra := environ.get("SPARK_EXTRA_CLASSPATH"):
        folders.insert(0, extra)
    arguments = [
        part
        for flag, name in _EXECUTOR_ARGUMENTS.items()
        for part in (flag, _require_variable(environ, name))
    ]
    heap = [f"-Xms{memory}", f"-Xmx{memory}"]
    return ["java", *_java_options(environ), *heap, "-cp", ":".join(folders), _EXECUTOR_CLASS, *arguments]


def _java_options(environ: Mapping[str, str]) -> list[str]:
    """SPARK_JAVA_OPT_0 and on, by their numbers: a later option overrules an earlier one."""
    numbered = [
        (int(found[1]), value) for name, value in environ.items() if (found := _JAVA_OPTION.fullmatch(name))
    ]
    return [value for _, value in sorted(numbered)]


def _require_variable(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name)
    if not value:
        raise EntryError(f"{name} is not set: this command is for containers that Spark on Kubernetes starts")
    return value


def scratch_folder(environ: Mapping[str, str]) -> str:
    """Return a folder that a container may write to: the first of Spark's local directories, else /tmp."""
    first = environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0]
    return first if first and os.access(first, os.W_OK) else "/tmp"


def scratch_environment(environ: Mapping[str, str], scratch: str) -> dict[str, str]:
    """The environment in which Java and Python keep their temporary files in `scratch`."""
    java = [environ.get("JDK_JAVA_OPTIONS", ""), f"-Djava.io.tmpdir={scratch}", "-XX:-UsePerfData"]
    return {**environ, "TMPDIR": scratch, "JDK_JAVA_OPTIONS": " ".join(java).strip()}


def main() -> int:
    """Run a subcommand, or become what the arguments name. Returns the exit code."""
    from odradek_pipeline.cli.main import run
    from odradek_pipeline.cli.table import COMMANDS, GROUPS

    if sys.argv[1:] in (["--help"], ["-h"]):
        code = run(["--help"])
        print(_HELP)
        return code
    if sys.argv[1:2] and sys.argv[1] in {**COMMANDS, **GROUPS}:
        return run(sys.argv[1:])
    try:
        becoming = build_command(sys.argv[1:], os.environ)
    except EntryError as error:
        print(f"odradek-pipeline: {error}", file=sys.stderr)
        return 2
    environment = dict(os.environ)
    if sys.argv[1] in ("driver", "executor"):
        scratch = scratch_folder(os.environ)
        Path(scratch).mkdir(parents=True, exist_ok=True)
        os.chdir(scratch)  # the driver makes a folder for artifacts where it stands
        environment = scratch_environment(os.environ, scratch)
    try:
        os.execvpe(becoming[0], becoming, environment)
    except OSError as error:
        print(f"odradek-pipeline: {becoming[0]} cannot be run: {error.strerror}", file=sys.stderr)
        return 127


if __name__ == "__main__":
    sys.exit(main())
