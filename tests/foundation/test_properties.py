"""Java's properties syntax, as java.util.Properties reads it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.foundation.errors import SettingError
from odradek.foundation.settings.file import parse_properties


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("a=1\nb:2\nc 3\n", {"a": "1", "b": "2", "c": "3"}),
        ("  a  =  1  ", {"a": "1  "}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a==b", {"a": "=b"}),
        ("a = : b", {"a": ": b"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("a\\ b c", {"a b": "c"}),
        ("# no\n  ! no\na=#yes", {"a": "#yes"}),
        ("a=1,\\\n   2,\\\r\n\t3", {"a": "1,2,3"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("# not continued \\\na=1", {"a": "1"}),
        ("a=1\\\n# part of it", {"a": "1# part of it"}),
        ("a=x\\ty\\nz\\qw", {"a": "x\ty\nzqw"}),
        ("a=\\u00e4\\ud83d\\ude00", {"a": "ä😀"}),
        ("a=1\ra=2", {"a": "2"}),
        ("a=1\\", {"a": "1"}),
        ("", {}),
    ],
)
def test_lines(text: str, entries: dict[str, str]) -> None:
    assert parse_properties(text) == entries


def test_a_broken_escape_names_its_line() -> None:
    with pytest.raises(SettingError, match=r"mine\.properties, line 3: .*four hexadecimal"):
        parse_properties("a=1\n\nb=\\u12x4", source="mine.properties")


def _written(text: str, *, is_key: bool) -> str:
    special = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
    if is_key:
        special |= {" ": "\\ ", "=": "\\=", ":": "\\:", "#": "\\#", "!": "\\!"}
    written = "".join(special.get(character, character) for character in text)
    return "\\" + written if not is_key and written.startswith(" ") else written


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_what_is_written_is_read(entries: dict[str, str]) -> None:
    text = "\n".join(
        f"{_written(key, is_key=True)}={_written(value, is_key=False)}" for key, value in entries.items()
    )
    assert parse_properties(text) == entries


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_properties(text)
    except SettingError as error:
        assert "line" in str(error)
