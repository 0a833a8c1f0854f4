"""The runner of pages itself: what it refuses to leave untested, and how each kind of block is run."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.page_folder import REPOSITORY, stamps_in
from tests.support.page_output import difference
from tests.support.page_run import BlockFailed, PageRun
from tests.support.pages import Block, PageError, blocks_of
from tests.support.private_network import available

pytestmark = pytest.mark.integration


def blocks(tmp_path: Path, text: str) -> list[Block]:
    page = tmp_path / "page.md"
    page.write_text(text)
    return blocks_of(page, page="page.md")


def play(tmp_path: Path, text: str) -> PageRun:
    with PageRun(tmp_path / "run", blocks(tmp_path, text)) as run:
        run.play()
    return run


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("```yaml\na: 1\n```\n", "page.md:2: nothing says what to do with this block (yaml)"),
        ("```\na\n```\n", "page.md:2: nothing says what to do with this block (no language)"),
        ("Words:\n\n    ls\n", "page.md:3: a code block by indentation has no language"),
        ("<!-- test: skp x -->\n```sh\nls\n```\n", "page.md:1: there is no kind 'skp'"),
        ("<!-- test: skip -->\n```sh\nls\n```\n", "page.md:1: 'skip' needs a reason"),
        ("<!-- test: run fals=1 -->\n```sh\nls\n```\n", "page.md:1: 'run' does not take 'fals=1'"),
        ("<!-- test: background -->\n```sh\nls\n```\n", "page.md:1: 'background' needs until"),
        ("<!-- test: run -->\nWords.\n", "page.md:1: this comment stands before no block"),
        ("<!-- test: run -->\n", "page.md:1: this comment stands before no block"),
        ("<!-- test: pytest -->\n```sh\nls\n```\n", "page.md:3: a block of kind 'pytest' is python, not sh"),
        ("```sh\nls\n", "page.md:1: the fence has no end"),
    ],
)
def test_nothing_goes_untested_by_accident(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(PageError) as raised:
        blocks(tmp_path, text)
    assert str(raised.value).startswith(problem)


def test_a_list_goes_on_by_indentation_and_drawings_are_no_code(tmp_path: Path) -> None:
    text = "- one\n\n    more of one\n\n```mermaid\ngraph\n```\n\n  ```sh\n  ls\n  ```\n"
    assert [(block.line, block.text) for block in blocks(tmp_path, text)] == [(10, "ls\n")]


def test_a_page_has_a_default(tmp_path: Path) -> None:
    text = "<!-- test: page kubernetes -->\n```sh\nls\n```\n\n<!-- test: run -->\n```sh\nls\n```\n"
    assert [block.kind for block in blocks(tmp_path, text)] == ["kubernetes", "run"]


def test_shell_blocks_share_one_terminal(tmp_path: Path) -> None:
    play(
        tmp_path,
        "```sh\nA=1\nexport B='2 3'\nmkdir d\ncd d\n```\n\n```sh\ntest \"$A$B\" = '12 3'\n"
        'test "$(basename "$PWD")" = d\n```\n',
    )


def test_every_command_has_to_succeed_and_the_one_that_did_not_is_named(tmp_path: Path) -> None:
    with pytest.raises(BlockFailed, match=r"page\.md:2: the block ended with 1 instead of 0 at `false`"):
        play(tmp_path, "```sh\nfalse\ntrue\n```\n")
    with pytest.raises(BlockFailed, match="ended with 0 instead of 3"):
        (tmp_path / "again").mkdir()
        play(tmp_path / "again", "<!-- test: run fails=3 -->\n```sh\ntrue\n```\n")


def test_a_block_that_hangs_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(BlockFailed, match=r"did not end in 0.2 s"):
        play(tmp_path, "<!-- test: run timeout=0.2 -->\n```sh\nsleep 60\n```\n")


def test_what_a_page_shows_is_compared(tmp_path: Path) -> None:
    console = "```console\n$ echo a  b\na b\n$ printf '%s\\n' 1 2 3 \\\n> 4\n1\n...\n4\n```\n"
    output = "```sh\necho took 12 ms\n```\n\n<!-- test: output -->\n```text\ntook … ms\n```\n"
    play(tmp_path, console + "\n" + output)
    (tmp_path / "again").mkdir()
    with pytest.raises(BlockFailed, match=r"(?s)printed something else.*-c\n\+b"):
        play(tmp_path / "again", "```console\n$ printf 'a\\nb\\n'\na\nc\n```\n")


def test_a_wildcard_ends_with_its_line() -> None:
    assert difference("a … c\n", "a b c\n") == ""
    assert difference("a … c\n", "a b\nb c\n") != ""
    assert difference("a\n…\nc\n", "a\nb\nb\nc\n") == ""
    assert difference("a\n", "a\nb\n") != ""


@pytest.mark.thorough
def test_python_blocks_are_scripts_sessions_and_tests(tmp_path: Path) -> None:
    play(
        tmp_path,
        "```python\nprint('hello')\n```\n<!-- test: output -->\n```text\nhello\n```\n"
        "<!-- test: session -->\n```python\nimport asyncio\nx = await asyncio.sleep(0, 5)\n```\n"
        "<!-- test: session -->\n```python\nprint(x)\n```\n<!-- test: output -->\n```text\n5\n```\n"
        "<!-- test: pytest fails=1 -->\n```python\ndef test_it():\n    assert False\n```\n",
    )
    (tmp_path / "again").mkdir()
    with pytest.raises(BlockFailed, match=r"(?s)page\.md:3: the block raised.*1 / 0.*ZeroDivisionError"):
        play(tmp_path / "again", "<!-- test: session -->\n```python\n1 / 0\n```\n")


def test_hidden_blocks_and_files_come_in_their_order(tmp_path: Path) -> None:
    play(
        tmp_path,
        "<!-- test: sh\necho a=1 > made\n-->\n<!-- test: file b/c.properties -->\n```properties\na=1\n```\n"
        "```sh\ncmp made b/c.properties\n```\n",
    )


def test_a_background_block_lives_until_the_page_ends(tmp_path: Path) -> None:
    background = '<!-- test: background until="up" -->\n```sh\necho up; echo $$ > pid; exec sleep 600\n```\n'
    play(tmp_path, background + "```sh\nkill -0 $(cat pid)\n```\n")
    pid = (tmp_path / "run/page/pid").read_text().strip()
    assert not Path(f"/proc/{pid}").exists()


def test_a_background_block_that_ends_early_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(BlockFailed, match="ended with 7 before 'up'"):
        play(tmp_path, '<!-- test: background until="up" -->\n```sh\necho down; exit 7\n```\n')


def test_ctrl_c_ends_what_has_no_end(tmp_path: Path) -> None:
    run = play(tmp_path, '<!-- test: interrupt until="2" -->\n```sh\necho 1; echo 2; sleep 600\n```\n')
    assert run.notes == []


def test_ctrl_c_works_in_a_run_that_ignores_it_itself(tmp_path: Path) -> None:
    """As a shell has a program ignore it that is started in the background."""
    one = "tests/docs/test_page_runner.py::test_ctrl_c_ends_what_has_no_end"
    pytest_of_it = f"{sys.executable} -m pytest -q -p no:cacheprovider --basetemp {tmp_path / 'inner'} {one}"
    done = subprocess.run(
        ["sh", "-c", f"trap '' INT; exec {pytest_of_it}"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_what_a_machine_does_not_have_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "<!-- test: run needs=no-such-program -->\n```sh\nno-such-program\n```\n"
    monkeypatch.delenv("CI", raising=False)
    assert play(tmp_path, text).notes == ["page.md:3: left out, as this machine has no no-such-program"]
    monkeypatch.setenv("CI", "true")
    (tmp_path / "again").mkdir()
    with pytest.raises(BlockFailed, match="ended with 127"):
        play(tmp_path / "again", text)


@pytest.mark.thorough
def test_a_page_has_ports_of_its_own(tmp_path: Path) -> None:
    if not available():
        pytest.skip("no network namespace can be made here")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        play(
            tmp_path, f"```python\nimport socket\nsocket.create_server(('127.0.0.1', {port})).close()\n```\n"
        )


def test_make_runs_what_the_makefile_says_and_sets_nothing_up(tmp_path: Path) -> None:
    assert ".product" in stamps_in(REPOSITORY / "Makefile")
    play(tmp_path, "```sh\nmake -n run > commands\n```\n")
    # Below `make test`, make would print its directories, too.
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS"))}
    wanted = subprocess.run(
        ["make", "-n", "-o", ".venv/.product", "run"],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    commands = (tmp_path / "run/page/commands").read_text()
    assert commands == wanted.stdout
    assert "pip" not in commands and "start --listen 127.0.0.1:9092" in commands


def test_blocks_for_kubernetes_are_run_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`kubectl` is a program here that writes down what it is asked for."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "kubectl").write_text(
        f'#!/bin/sh\necho "$1" >> {tmp_path}/said; cat "$3" >> {tmp_path}/said\n'
    )
    (programs / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    text = "<!-- test: page kubernetes -->\n```yaml\nkind: Topic\n```\n\n```sh\ntest -d helm; echo=ran\n```\n"
    with PageRun(tmp_path / "run", blocks(tmp_path, text), has_kubernetes=True) as run:
        run.play()
    assert (tmp_path / "said").read_text() == "apply\nkind: Topic\n"


def test_blocks_for_kubernetes_are_left_out_elsewhere(tmp_path: Path) -> None:
    notes = play(tmp_path, "<!-- test: kubernetes timeout=9 -->\n```sh\nfalse\n```\n").notes
    assert notes == ["page.md:3: kubernetes"]
