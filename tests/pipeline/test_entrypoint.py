"""What the pipeline's image becomes when Spark on Kubernetes starts it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from odradek_pipeline.entrypoint import EntryError, build_command, scratch_environment, scratch_folder
from tests.support.broker_process import CHECKOUT

EXECUTOR = {
    "SPARK_HOME": "/spark",
    "SPARK_CONF_DIR": "/opt/spark/conf",
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@driver-svc:7078",
    "SPARK_EXECUTOR_ID": "1",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "512m",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.9",
    "SPARK_EXECUTOR_POD_NAME": "job-exec-1",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_JAVA_OPT_10": "-Dlast=1",
    "SPARK_JAVA_OPT_9": "-Dninth=1",
    "SPARK_JAVA_OPT_0": "-Dfirst=1",
}


def test_a_driver_is_submitted_again_in_client_mode_on_its_own_address() -> None:
    given = [
        "driver",
        "--properties-file",
        "/opt/spark/conf/spark.properties",
        "local:///job.py",
        "--topic",
        "t",
    ]
    environ = {"SPARK_HOME": "/spark", "SPARK_DRIVER_BIND_ADDRESS": "10.0.0.8"}
    assert build_command(given, environ) == [
        "/spark/bin/spark-submit",
        "--deploy-mode",
        "client",
        "--conf",
        "spark.driver.bindAddress=10.0.0.8",
        *given[1:],
    ]


def test_an_executor_has_its_options_in_the_order_of_their_numbers() -> None:
    made = build_command(["executor"], EXECUTOR)
    assert made[:6] == ["java", "-Dfirst=1", "-Dninth=1", "-Dlast=1", "-Xms512m", "-Xmx512m"]
    assert made[6:8] == ["-cp", "/opt/spark/conf:/spark/jars/*"]
    given = made[9:]
    assert dict(zip(given[::2], given[1::2], strict=True)) == {
        "--driver-url": EXECUTOR["SPARK_DRIVER_URL"],
        "--executor-id": "1",
        "--cores": "2",
        "--app-id": "spark-1",
        "--hostname": "10.0.0.9",
        "--resourceProfileId": "0",
        "--podName": "job-exec-1",
    }


def test_an_extra_class_path_comes_first() -> None:
    made = build_command(["executor"], {**EXECUTOR, "SPARK_EXTRA_CLASSPATH": "/extra/*"})
    assert made[made.index("-cp") + 1] == "/extra/*:/opt/spark/conf:/spark/jars/*"


@pytest.mark.parametrize("missing", ["SPARK_DRIVER_URL", "SPARK_EXECUTOR_MEMORY", "SPARK_HOME"])
def test_what_spark_always_sets_is_named_when_it_is_missing(missing: str) -> None:
    environ = {name: value for name, value in EXECUTOR.items() if name != missing}
    with pytest.raises(EntryError, match=f"{missing} is not set"):
        build_command(["executor"], environ)


def test_other_commands_run_as_they_are() -> None:
    assert build_command(["sh", "-c", "true"], os.environ) == ["sh", "-c", "true"]
    for none in ([], ["--help"], ["-h"]):
        with pytest.raises(EntryError, match="usage"):
            build_command(none, {})


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("laod", "did you mean 'load'?"),
        ("dead-leters", "did you mean 'dead-letters'?"),
        ("drivr", "did you mean 'driver'?"),
        ("completion", "`odradek-pipeline --help` lists the commands"),
    ],
)
def test_an_unknown_command_is_named_with_the_nearest_one(word: str, hint: str) -> None:
    with pytest.raises(EntryError, match=re.escape(f"there is no command {word!r}")) as raised:
        build_command([word, "--topic", "orders"], {"PATH": "/nowhere"})
    assert str(raised.value).endswith(hint)


def test_temporary_files_go_where_spark_lets_a_container_write(tmp_path: Path) -> None:
    assert scratch_folder({"SPARK_LOCAL_DIRS": f"{tmp_path},/elsewhere"}) == str(tmp_path)
    assert scratch_folder({"SPARK_LOCAL_DIRS": "/nowhere/at/all"}) == "/tmp"
    assert scratch_folder({}) == "/tmp"
    made = scratch_environment({"JDK_JAVA_OPTIONS": "-Da=1", "X": "y"}, "/scratch")
    assert made == {
        "X": "y",
        "TMPDIR": "/scratch",
        "JDK_JAVA_OPTIONS": "-Da=1 -Djava.io.tmpdir=/scratch -XX:-UsePerfData",
    }


def entry(*arguments: str, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "odradek_pipeline.entrypoint", *arguments],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT / "pipeline"), **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_process_becomes_the_driver_in_its_scratch_folder(tmp_path: Path) -> None:
    submit = tmp_path / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text('#!/bin/sh\npwd; echo "$TMPDIR"; for one in "$@"; do echo "$one"; done\n')
    submit.chmod(0o755)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    environ = {
        "SPARK_HOME": str(tmp_path),
        "SPARK_DRIVER_BIND_ADDRESS": "10.0.0.8",
        "SPARK_LOCAL_DIRS": str(scratch),
    }
    done = entry("driver", "a b", environ=environ)
    assert done.stdout.splitlines()[:2] == [str(scratch), str(scratch)]
    assert done.stdout.splitlines()[-1] == "a b"


@pytest.mark.thorough
def test_a_wrong_start_says_what_is_missing() -> None:
    done = entry("executor", environ={"SPARK_EXECUTOR_MEMORY": ""})
    assert done.returncode == 2
    assert "SPARK_EXECUTOR_MEMORY is not set" in done.stderr
    done = entry("no-such-program", environ={})
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no command 'no-such-program'" in done.stderr
