"""Decision by decision beside Apache Kafka 4.1.1's own StandardAuthorizer, in one JVM: 24,000 generated cells.

`ODRADEK_CELL_SETS` asks for more ACL sets than the suite's 120, `ODRADEK_SEED` for others. It takes about four seconds,
of which the virtual machine needs three.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from odradek.security.authorization.acl_matching import AclIndex
from odradek.security.authorization.acls import AccessControlEntry, PatternType, ResourcePattern
from odradek.security.authorization.authorizer import Authorizer, super_users
from tests.compat.authorizer.cells import SUPER_USERS, AclSet, Question, acl_sets, lines, questions
from tests.support.java import JavaUnavailableError, java_environment, kafka_classpath
from tests.support.peers import skip_or_fail

pytestmark = pytest.mark.thorough

SETS = int(os.environ.get("ODRADEK_CELL_SETS", "120"))
SEED = int(os.environ.get("ODRADEK_SEED", "20260"))
QUESTIONS_PER_SET = 200
JAVA_SECONDS_MAX = 300


def kafkas_decisions(cells: list[tuple[AclSet, list[Question]]]) -> list[bool]:
    try:
        classpath = kafka_classpath()
    except JavaUnavailableError as error:
        skip_or_fail(str(error))
    java = shutil.which("java")
    if java is None or shutil.which("javac") is None:
        skip_or_fail("there is no JDK, which compiles the program that asks Kafka's authorizer")
    text = "\n".join(line for acl_set, asked in cells for line in lines(acl_set, asked)) + "\n"
    done = subprocess.run(
        [
            str(java),
            "-XX:+UseSerialGC",
            "-Xmx512m",
            "-cp",
            classpath,
            str(Path(__file__).with_name("Decisions.java")),
        ],
        input=text,
        capture_output=True,
        text=True,
        timeout=JAVA_SECONDS_MAX,
        env=java_environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    words = done.stdout.split()
    assert set(words) <= {"ALLOWED", "DENIED"}, done.stdout[:500]
    return [word == "ALLOWED" for word in words]


def our_decisions(acl_set: AclSet, asked: list[Question]) -> list[bool]:
    by_pattern: dict[ResourcePattern, list[AccessControlEntry]] = {}
    for pattern, entry in acl_set.acls:
        by_pattern.setdefault(pattern, []).append(entry)
    authorizer = Authorizer(
        super_users=super_users(SUPER_USERS), allows_without_acl=acl_set.allows_without_acl
    )
    authorizer.replace(AclIndex().with_changes(by_pattern))
    return [
        authorizer.allows_any(one.principal, one.host, one.operation, one.type)
        if one.name is None
        else authorizer.allows(one.principal, one.host, one.operation, one.type, one.name)
        for one in asked
    ]


def is_declared(question: Question, acl_set: AclSet) -> bool:
    """Whether Kafka's authorizer skips ACLs here: its scan leaves out literal `*` for names that begin with `*`.

    So a denial of every group does not stop a group named `*x`. Ours applies it, as documented for `*`.
    """
    name = question.name or ""
    return (
        name.startswith("*")
        and name != "*"
        and any(
            pattern.type is question.type
            and pattern.pattern_type is PatternType.LITERAL
            and pattern.name == "*"
            for pattern, _ in acl_set.acls
        )
    )


def test_every_cell_is_decided_as_kafka_decides_it() -> None:
    print(f"ODRADEK_SEED={SEED}")
    rng = random.Random(SEED)
    cells = [(acl_set, list(questions(rng, QUESTIONS_PER_SET))) for acl_set in acl_sets(rng, SETS)]
    expected = kafkas_decisions(cells)
    found = [one for acl_set, asked in cells for one in our_decisions(acl_set, asked)]
    assert len(expected) == len(found) == SETS * QUESTIONS_PER_SET >= 20_000
    flat = [(acl_set, one) for acl_set, asked in cells for one in asked]
    differing = [
        (question, "Kafka allows" if kafka else "Kafka denies", acl_set)
        for (acl_set, question), kafka, ours in zip(flat, expected, found, strict=True)
        if kafka != ours
    ]
    wrong = [one for one in differing if not is_declared(one[0], one[2])]
    assert wrong == [], f"{len(wrong)} of {len(found)} cells differ, the first: {wrong[0]}"
    print(f"{len(found)} cells, {len(differing)} differ as declared")
    assert differing, "Kafka no longer skips the ACLs on every name: take the declared difference away"
    # The cells can show a difference: both decisions are common, for names and for types.
    for is_named in (True, False):
        counts = Counter(
            kafka
            for (_, one), kafka in zip(flat, expected, strict=True)
            if (one.name is not None) == is_named
        )
        assert min(counts[True], counts[False]) > 300, counts
