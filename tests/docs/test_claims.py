"""What pages claim of the code is what the code has: counts, lists, and what is said to be missing.

A claim is read from its page and compared with the declaration that it is about. A page that says of something that it
is not there fails once it is there (`DENIALS`).
"""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Callable
from functools import cache
from typing import Final

import pytest

from odradek import Admin, Client, Consumer, Producer
from odradek.broker.requests.not_served import ABSENCES
from odradek.broker.requests.table import HANDLERS
from odradek.foundation.endpoints import SECURITY_PROTOCOLS
from odradek.foundation.settings.protection import SASL_MECHANISMS
from odradek.wire.protocol.api import ApiKey
from odradek_operator.resources.kinds import DEFINITIONS
from tests.broker.replication import test_replica_chaos
from tests.queues.faults import Kind
from tests.queues.members import KINDS
from tests.simulation import (
    test_planted_bugs,
    test_planted_bugs_of_compaction,
    test_planted_bugs_of_queues,
    test_planted_bugs_of_rights,
    test_planted_bugs_of_streams,
    test_planted_bugs_of_transactions,
)
from tests.support.page_folder import REPOSITORY

PAGES: Final = (
    "README.md",
    "CONTRIBUTING.md",
    *sorted(str(page.relative_to(REPOSITORY)) for page in REPOSITORY.glob("docs/*.md")),
    *sorted(str(page.relative_to(REPOSITORY)) for page in REPOSITORY.glob("docs/reference/*.md")),
    *(f"{folder}/README.md" for folder in ("broker", "operator", "pipeline")),
)
WORDS_OF_CONTRIBUTING_MAX: Final = 500
OF_CLUSTERS: Final = (
    test_planted_bugs,
    test_planted_bugs_of_compaction,
    test_planted_bugs_of_queues,
    test_planted_bugs_of_rights,
    test_planted_bugs_of_streams,
    test_planted_bugs_of_transactions,
)
NUMBERS: Final = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
# Lines of code grow; a page may be this far off.
LINES_TOLERANCE: Final = 0.1


def page(path: str) -> str:
    return (REPOSITORY / path).read_text(encoding="utf-8")


@cache
def prose(path: str) -> str:
    """A page's text, each run of blanks as one."""
    return " ".join(page(path).split())


def table_after(path: str, head: str) -> list[list[str]]:
    """The cells of each row of the table whose first line begins with `head`."""
    rows = page(path).partition(f"\n{head}")[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip().strip("|").split(" | ")] for row in rows]


# --- what is said to be missing ---------------------------------------------------------------------------------------


def _denial(thing: str) -> str:
    """A sentence or cell that says that the broker or a client lacks a thing."""
    holder = r"(?:the broker|brokers?|odradek|it|the client|clients?)\b"
    return (
        rf"(?i)\b{holder}[^.|]{{0,20}}\b(?:has no|have no|speaks? no|supports? no|does not support|lacks?) "
        rf"(?:\w+ )?(?:{thing})\b"
    )


# What the words of a page would deny, and whether the code has it.
DENIALS: Final[dict[str, tuple[str, Callable[[], bool]]]] = {
    "encrypted connections": (_denial("TLS|SSL|encryption"), lambda: "SSL" in SECURITY_PROTOCOLS),
    "logins": (_denial("authentication|SASL"), lambda: "SASL_SSL" in SECURITY_PROTOCOLS),
    "other protocols than PLAINTEXT": (
        r"(?i)other than `?PLAINTEXT|plain ?text (?:listeners )?(?:only|alone)|only `?PLAINTEXT",
        lambda: len(SECURITY_PROTOCOLS) > 1,
    ),
    "rights": (_denial("authorization|ACLs"), lambda: ApiKey.CREATE_ACLS in HANDLERS),
    "quotas": (_denial("quotas"), lambda: ApiKey.ALTER_CLIENT_QUOTAS in HANDLERS),
    "transactions": (_denial("transactions"), lambda: ApiKey.END_TXN in HANDLERS),
    "delegation tokens": (_denial("delegation tokens"), lambda: ApiKey.CREATE_DELEGATION_TOKEN in HANDLERS),
    "the group protocol of KIP-848": (
        _denial("KIP-848"),
        lambda: ApiKey.CONSUMER_GROUP_HEARTBEAT in HANDLERS,
    ),
    "what moves from Kafka's metadata": (
        r"(?i)\b(?:ACLs|quotas|users)[^.|]* do not move: Kafka",
        lambda: (REPOSITORY / "broker/odradek/broker/process/access_takeover.py").exists(),
    ),
}


@pytest.mark.parametrize("name", DENIALS)
def test_no_page_denies_what_is_there(name: str) -> None:
    pattern, is_there = DENIALS[name]
    if not is_there():
        return
    found = {path: match[0] for path in PAGES for match in re.finditer(pattern, prose(path))}
    assert found == {}, f"{name} are there, and pages deny it"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("logins", "The broker has no authentication yet: a firewall"),
        ("encrypted connections", "The client speaks no TLS."),
        ("other protocols than PLAINTEXT", "| `security.protocol` other than `PLAINTEXT` | the client"),
        ("other protocols than PLAINTEXT", "It connects to plaintext listeners only."),
        ("what moves from Kafka's metadata", "- ACLs and quotas do not move: Kafka has them in its metadata"),
    ],
)
def test_a_denial_is_found(name: str, text: str) -> None:
    assert re.search(DENIALS[name][0], text)


def test_what_the_python_client_is_said_to_lack_is_not_there() -> None:
    text = prose("docs/python-client.md").partition("## What it does not do")[2]
    assert "pausing partitions" in text and not hasattr(Consumer, "pause")
    assert "Committing by itself" in text and "is_auto_commit" not in inspect.signature(Consumer).parameters
    assert "topics by pattern" in text and "pattern" not in inspect.signature(Consumer).parameters


# --- lists ------------------------------------------------------------------------------------------------------------


def test_the_page_of_compatibility_names_every_protocol_and_mechanism() -> None:
    text = prose("docs/compatibility.md").partition("## Connections")[2].partition("## ")[0]
    listed = tuple(re.findall(r"`([A-Z][A-Z0-9_-]+)`", text))
    assert listed == (*SECURITY_PROTOCOLS, *SASL_MECHANISMS)


def test_a_proposal_is_absent_where_the_code_says_so() -> None:
    rows = table_after("docs/compatibility.md", "| KIP | about | state |")
    absent = {int(number) for absence in ABSENCES for number in re.findall(r"KIP-(\d+)", absence.feature)}
    said = {
        int(number): state for numbers, _, state in rows for number in numbers.split(",") if number.strip()
    }
    assert absent, "no absence names a KIP: the search is wrong"
    for number in sorted(absent):
        assert re.search(r"\bno\b", said[number]), (
            f"KIP-{number} is not served, and its row says {said[number]!r}"
        )


def test_when_to_use_names_every_kind_of_resource_and_the_count_is_right() -> None:
    kinds = [definition.kind for definition in DEFINITIONS]
    for kind in kinds:
        assert f"`{kind}`" in page("docs/when-to-use.md"), kind
    assert f"manages {NUMBERS[len(kinds)]} kinds of resources" in prose("docs/kubernetes.md")


def test_the_parts_of_the_admin_client_are_those_of_the_page() -> None:
    admin = Admin(Client("127.0.0.1:9"))
    rows = {
        first.strip("`"): second for first, second in table_after("docs/python-client.md", "| part | has |")
    }
    parts = {f"admin.{name}" for name in vars(admin) if name != "reassignments"}
    assert set(rows) == parts
    for part, names in rows.items():
        for name in re.findall(r"`(\w+)`", names):
            assert hasattr(getattr(admin, part.removeprefix("admin.")), name), f"{part}.{name}"


def test_the_bounds_of_the_producer_are_its_defaults() -> None:
    units = {"s": 1_000, "ms": 1, "KB": 1 << 10, "MB": 1 << 20}
    parameters = inspect.signature(Producer).parameters
    for name, default, _ in table_after("docs/python-client.md", "| bound | default |"):
        amount, unit = default.split()
        assert parameters[name.strip("`")].default == int(amount) * units[unit], name


def test_every_make_target_is_on_the_page_of_tests() -> None:
    text = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    rows = table_after("docs/testing.md", "| target | what it does |")
    named = {target for row in rows for target in re.findall(r"`make ([\w-]+)[^`]*`", " ".join(row))}
    assert named == set(phony.split()) | set(re.findall(r"^(recording):", text, re.MULTILINE))


def test_the_files_that_the_recipes_name_are_there() -> None:
    paths = re.findall(r"`(\w[\w.]*/[\w./*]*)`", page("CONTRIBUTING.md"))
    assert len(paths) > 10
    for path in paths:
        if "NAME" not in path:
            assert any(
                next(root.glob(path.rstrip("/")), None)
                for root in (REPOSITORY / "broker/odradek", REPOSITORY)
            ), f"CONTRIBUTING.md names {path}"


# --- counts -----------------------------------------------------------------------------------------------------------


def test_the_lines_of_code() -> None:
    (said,) = re.findall(r"([\d,]+) lines of Python", page("docs/when-to-use.md"))
    folders = ("broker/odradek", "operator/odradek_operator", "pipeline/odradek_pipeline")
    files = [path for folder in folders for path in (REPOSITORY / folder).rglob("*.py")]
    lines = sum(path.read_bytes().count(b"\n") for path in files)
    assert abs(int(said.replace(",", "")) / lines - 1) <= LINES_TOLERANCE, f"there are {lines} lines"


def test_contributing_is_short() -> None:
    assert len(page("CONTRIBUTING.md").split()) <= WORDS_OF_CONTRIBUTING_MAX


def test_the_planted_bugs_are_counted() -> None:
    in_replication = len(test_replica_chaos.BUGS)
    in_clusters = sum(len(module.BUGS) for module in OF_CLUSTERS)
    assert len(OF_CLUSTERS) == len(list((REPOSITORY / "tests/simulation").glob("test_planted_bugs*.py")))
    in_source = len(tomllib.loads(page("tests/planted/bugs.toml"))["bug"])
    row = f"{in_replication} in replication, {in_clusters} in clusters, {in_source} in the source"
    assert row in page("docs/reliability.md")
    assert f"plants {in_source} bugs in a copy" in page("docs/testing.md")


def test_the_members_and_faults_of_the_queue_proof_are_counted() -> None:
    members, clients = NUMBERS[len(KINDS)], NUMBERS[len(set(KINDS))]
    row = f"a share group of {members} members of {clients} clients, under {len(Kind)} kinds of faults"
    assert row in page("docs/reliability.md")


def test_the_tests_of_franz_go_are_counted() -> None:
    folder = REPOSITORY / "tests/compat/franz-go"

    def count(name: str) -> int:
        lines = (folder / name).read_text(encoding="utf-8").splitlines()
        return sum(bool(line.strip()) and not line.startswith("#") for line in lines)

    assert f"{count('allow')} of its " in page("docs/compatibility.md")
