"""Masks: rules that hide fields, and no way past them through a page, a tail, a search or another form."""

from __future__ import annotations

import json

import pytest

from odradek.client.schemas.registry import SchemaRegistry
from odradek.console.masks import MASK, MaskRules, parse_masks
from odradek.console.showing import RecordShowing
from odradek.foundation.console_limits import CONSOLE_MASK_TOPICS_KEPT_MAX, CONSOLE_MASKED_BYTES_MAX
from odradek.foundation.errors import SettingError
from tests.console.viewer import Viewer, run
from tests.support.served_registry import RegistryThread, avro, framed
from tests.support.stories import told_by

SECRET = "hunter2"
CARD = {
    "type": "record",
    "name": "Payment",
    "fields": [{"name": "card_number", "type": "string"}, {"name": "amount", "type": "long"}],
}
RULES = """
[[mask]]
topics = ["*"]
value = ["password", "$.card.number", "card-number", "$.items.*.price"]
headers = ["Authorization"]

[[mask]]
topics = ["*-keys"]
key = ["$"]
"""


def hide(text: str, *fields: str) -> str:
    rules = parse_masks(f'[[mask]]\ntopics = ["*"]\nvalue = {json.dumps(fields)}', source="rules")
    return rules.find("t").value.hide(text.encode()).decode()


@pytest.mark.parametrize(
    ("text", "fields", "hidden"),
    [
        ('{"a": 1,\n "b": 2.50}', ["a"], '{"a": "[masked]",\n "b": 2.50}'),
        ('{"a":{"b":[1,{"c":"}"}]},"d":1}', ["a"], '{"a":"[masked]","d":1}'),
        ('{"a":[1,[2],{}]}', ["$.a"], '{"a":"[masked]"}'),
        ('[{"a":1},{"a":2,"b":{"a":[]}}]', ["a"], '[{"a":"[masked]"},{"a":"[masked]","b":{"a":"[masked]"}}]'),
        ('{"a":{"x":1},"x":2}', ["$.x"], '{"a":{"x":1},"x":"[masked]"}'),
        ('{"a":[[{"x":1}]],"b":{"x":2}}', ["$.a.x"], '{"a":[[{"x":"[masked]"}]],"b":{"x":2}}'),
        ('{"a":{"x":1},"b":{"x":2}}', ["$.*.x"], '{"a":{"x":"[masked]"},"b":{"x":"[masked]"}}'),
        ('{"a":1,"a":{},"a":"x"}', ["a"], '{"a":"[masked]","a":"[masked]","a":"[masked]"}'),
        (r'{"\u0061":1,"A_":2,"b-":3}', ["_a"], r'{"\u0061":"[masked]","A_":"[masked]","b-":3}'),
        (
            '{"straße":1,"cafe\u0301":2}',
            ["STRASSE", "caf\u00e9"],
            '{"straße":"[masked]","cafe\u0301":"[masked]"}',
        ),
        ('{"x":{"a":null},"y":"a","z":["a"]}', ["a"], '{"x":{"a":"[masked]"},"y":"a","z":["a"]}'),
        (r'{"q\"":"{","a":"\\","b":"]"}', ["a"], r'{"q\"":"{","a":"[masked]","b":"]"}'),
        ('{"n":1e400,"a":NaN}', ["a"], '{"n":1e400,"a":"[masked]"}'),
        ("{}", ["a"], "{}"),
        ("[]", ["a"], "[]"),
    ],
)
def test_what_is_hidden_is_replaced_and_all_else_stays(text: str, fields: list[str], hidden: str) -> None:
    assert hide(text, *fields) == hidden
    assert hide(hidden, *fields) == hidden


@pytest.mark.parametrize(
    "text",
    [
        "5",
        f'"{SECRET}"',
        SECRET,
        f'{{"a": "{SECRET}',
        f"\ufeff{{}}{SECRET}",
        "[" * 100_000,
        "",
        f'{{"a":{SECRET}}}',
    ],
)
def test_what_cannot_be_judged_is_hidden_whole(text: str) -> None:
    assert hide(text, "a") == MASK


def test_bytes_that_are_no_text_and_large_ones_are_hidden_whole() -> None:
    masks = parse_masks(RULES, source="rules").find("t").value
    assert masks.hide(b"\xff\xfe{\x00}\x00") == masks.hide(b"\x80{}") == MASK.encode()
    fits = b'{"a":"' + b"x" * (CONSOLE_MASKED_BYTES_MAX - 8) + b'"}'
    assert masks.hide(fits) == fits and masks.hide(fits + b" ") == MASK.encode()
    assert hide('{"b":1}', "$", "a") == MASK


def test_rules_count_by_topic_and_cluster() -> None:
    text = """
    [[mask]]
    topics = ["pay-?", "[x]*"]
    clusters = ["prod*"]
    value = ["a"]
    [[mask]]
    topics = ["pay-1"]
    key = ["$.b"]
    headers = ["*"]
    """
    rules = parse_masks(text, source="rules")
    production, staging = rules.for_cluster("production"), rules.for_cluster("staging")
    both = production.find("pay-1")
    assert both.value.names == {"a"} and both.key.paths == (("b",),)
    assert both.hide_headers((("x", b"1"), ("y", None))) == (("x", MASK.encode()), ("y", MASK.encode()))
    assert production.find("[x]-rays").value and not production.find("x-rays")
    assert not production.find("pay-22") and not production.find("PAY-1")
    assert not staging.find("pay-1").value and staging.find("pay-1").key
    assert (rules.list_unused(["staging"]), rules.list_unused(["staging", "production"])) == ([1], [])
    for number in range(CONSOLE_MASK_TOPICS_KEPT_MAX + 10):
        assert not staging.find(f"t{number}")
    assert staging.find("pay-1").key and not MaskRules().find("pay-1")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "0 rules"),
        ("[mask]\ntopics = ['a']", r"begins with the line \[\[mask\]\], .* it has mask$"),
        ("[[masks]]\ntopics = ['a']\nvalue = ['a']", "it has masks$"),
        ("[[mask]]\ntopics = ['a']", "needs topics, and one of"),
        ("[[mask]]\nvalue = ['a']", "needs topics"),
        ("[[mask]]\ntopics = ['a']\nvalues = ['a']", "rule 1 has 'values'"),
        ("[[mask]]\ntopics = 'a'\nvalue = ['a']", "topics has to be a list of texts"),
        ("[[mask]]\ntopics = ['a']\nvalue = []", "value has to be a list of texts"),
        ("[[mask]]\ntopics = ['a']\nvalue = [1]", "value has to be a list of texts"),
        ("[[mask]]\ntopics = ['']\nvalue = ['a']", "none of them empty"),
        ("[[mask]]\ntopics = ['a']\nvalue = ['$..a']", "write a path as"),
        ("[[mask]]\ntopics = ['a']\nvalue = ['$a']", "write a path as"),
        ("[[mask]]\ntopics = ['a']\nvalue = ['$.a[0].b']", "write a path as"),
        ("mask", "it is no TOML"),
    ],
)
def test_rules_that_would_hide_nothing_are_refused(text: str, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        parse_masks(text, source="rules")


def run_with_masks(bootstrap: str, story: object) -> None:
    with RegistryThread() as thread:
        thread.registry.add(1, CARD)
        masks = parse_masks(RULES, source="rules").for_cluster("cluster")
        showing = RecordShowing(SchemaRegistry(thread.registry.url), masks)
        run(bootstrap, story, showing=showing)  # type: ignore[arg-type]


with_masks = told_by(run_with_masks, asks=("bootstrap",))


@pytest.mark.integration
@with_masks
async def test_no_page_shows_what_is_masked(viewer: Viewer, unique: str) -> None:
    await viewer.make_topic(unique)
    values = [
        json.dumps({"password": SECRET, "user": "ann"}).encode(),
        json.dumps({"user": "bob", "deep": [{"PassWord": [SECRET]}], "x": "y" * 20_000}).encode(),
        framed(1, avro({"card_number": SECRET, "amount": 5}, CARD)),
        framed(1, SECRET.encode()),
        framed(7, SECRET.encode()),
        f"password={SECRET}".encode(),
    ]
    header = [("authorization", SECRET.encode()), ("trace", b"t-1")]
    await viewer.produce(unique, *values, key=b"plain key", headers=header)
    for form in ("auto", "json", "text", "hex"):
        page = await viewer.get("records", topic=unique, form=form)
        assert page["is_masked"] and len(page["records"]) == len(values)
        whole = [
            await viewer.get("record", topic=unique, partition=0, offset=offset, form=form)
            for offset in range(len(values))
        ]
        for shown in (page, whole):
            text = json.dumps(shown)
            assert SECRET not in text and SECRET.encode().hex(" ") not in text
            assert "plain key" in text and "t-1" in text
    shown = [one["value"] for one in (await viewer.get("records", topic=unique))["records"]]
    assert json.loads(shown[0]["text"]) == {"password": MASK, "user": "ann"}
    assert json.loads(shown[2]["text"]) == {"card_number": MASK, "amount": 5}
    assert [one["text"] for one in shown[3:]] == [MASK, MASK, MASK]


@pytest.mark.integration
@with_masks
async def test_a_search_finds_nothing_that_is_masked(viewer: Viewer, unique: str) -> None:
    topic = f"{unique}-keys"
    await viewer.make_topic(topic)
    header = [("authorization", b"in-header")]
    await viewer.produce(topic, b'{"password": "in-value", "user": "ann"}', key=b"in-key", headers=header)
    await viewer.produce(topic, framed(1, avro({"card_number": "in-avro", "amount": 5}, CARD)))
    everywhere = {"in": "key,value,headers"}

    async def count(text: str, **fields: str) -> int:
        events = await viewer.events("search", topic=topic, text=text, **everywhere, **fields)
        assert events[-1][1]["read"] == 2
        return sum(name == "match" for name, _ in events)

    for text in ("in-value", "in-key", "in-header", "in-avro", 'password": "in'):
        assert await count(text) == 0, text
        assert await count(text, form="hex") == 0, text
    assert await count('"USER": "ann') == 1 and await count("authorization") == 1


@pytest.mark.integration
@with_masks
async def test_a_tail_shows_nothing_that_is_masked(viewer: Viewer, unique: str) -> None:
    await viewer.make_topic(unique)
    async with viewer.listen("tail", topic=unique, form="text") as events:
        await anext(events)
        await viewer.produce(
            unique, json.dumps({"password": SECRET, "user": "ann"}).encode(), SECRET.encode()
        )
        seen: list[object] = []
        async for name, document in events:
            seen += document["records"] if name == "records" else []
            if len(seen) == 2:
                break
    assert SECRET not in json.dumps(seen) and "ann" in json.dumps(seen)


@pytest.mark.integration
def test_a_topic_without_masks_is_shown_as_it_is(bootstrap: str, unique: str) -> None:
    masks = parse_masks('[[mask]]\ntopics = ["other"]\nvalue = ["a"]', source="rules")

    async def story(viewer: Viewer) -> None:
        await viewer.make_topic(unique, [b"text", b'{"a": 1}'])
        page = await viewer.get("records", topic=unique)
        assert not page["is_masked"]
        assert [one["value"]["text"] for one in page["records"]] == ["text", '{\n  "a": 1\n}']

    run(bootstrap, story, showing=RecordShowing(None, masks))
