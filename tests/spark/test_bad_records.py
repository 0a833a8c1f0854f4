"""Records that cannot be read, with a real broker and Spark: good ones become columns, others become dead letters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from odradek_pipeline.errors import PipelineExitCode
from tests.spark.letters import letters, send
from tests.spark.tables import PARQUET_BEFORE_PROOF, pipeline, table
from tests.support.descriptors import order_bytes, order_set
from tests.support.peers import CreateTopic
from tests.support.samples import BASE_TIME_MS

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300), pytest.mark.thorough]

GOOD = b'{"id": %d, "place": {"city": "Kyoto"}}'
BAD = {
    b"": "an empty text",
    b"{": "no JSON",
    b'{"id": 1} and more': "more behind a JSON value",
    b'{"id": 1},{"id": 2}': "more behind a JSON value",
    b'{"id": 1}]': "more behind a JSON value",
    b'{"id": "one"}': "fields of the schema's types",
    b"[1]": "no JSON object",
    b"null": "no JSON object",
    b'{"place": {"city": "Oslo"}}': "the required field id is missing or null",
    b'{"id": 1, "place": {}}': "",
    b'{"id": 1, "place": {"city": "\xff"}}': "not UTF-8",
}
SCHEMA = "id BIGINT NOT NULL, place STRUCT<city: STRING>, note STRING"


@pytest.mark.parametrize("output_format", PARQUET_BEFORE_PROOF)
def test_bad_json_goes_to_the_dead_letters(
    output_format: str,
    spark: Any,
    bootstrap: str,
    create_topic: CreateTopic,
    unique: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic, schema = create_topic(1), tmp_path / "orders.ddl"
    output = f"lake.bad.{unique.replace('-', '_')}" if output_format == "iceberg" else str(tmp_path / "table")
    schema.write_text(SCHEMA)
    values = [GOOD % 1, *BAD, None, b' {"note": "n", "id": 2, "more": 1}\n']
    send(bootstrap, topic, values)
    load = (
        *("load", "--bootstrap", bootstrap, "--topic", topic, "--output", output, "--format", output_format),
        *("--value-format", "json", "--value-schema", str(schema)),
    )
    refused = pipeline(*load)
    assert refused.code == PipelineExitCode.BAD_RECORDS
    assert f"bad-records: {topic}-0 offset 1: value: an empty text. Run " in capsys.readouterr().err
    dead_letter = (*load, "--on-bad-record", "dead-letter")
    assert pipeline(*dead_letter).code == PipelineExitCode.BAD_RECORDS
    assert f"10 of {len(values)} records of run" in capsys.readouterr().err
    ran = pipeline(*dead_letter, "--bad-share-max", "0.9", "--dead-letter-topic", f"{topic}.bad")
    assert ran.code == PipelineExitCode.OK, capsys.readouterr().err
    assert (ran.summary["rows"], ran.summary["dead_letters"], ran.summary["offsets_without_row"]) == (
        4,
        10,
        0,
    )
    rows = table(spark, output_format, output).orderBy("offset").collect()
    assert [(one.offset, one.id, one.place and one.place.city, one.note) for one in rows] == [
        (0, 1, "Kyoto", None),
        (10, 1, None, None),
        (12, None, None, None),
        (13, 2, None, "n"),
    ]
    found = letters(bootstrap, f"{topic}.bad")
    bad = [(number, value) for number, value in enumerate(values) if value is not None and BAD.get(value)]
    assert [(one.key, one.value) for one in found] == [(b"k%d" % number, value) for number, value in bad]
    for (number, value), one in zip(bad, found, strict=True):
        assert BAD[value] in one.said("error")
        assert one.headers[0] == ("trace", b"\x00%d" % number)
        assert (one.said("topic"), one.said("partition"), one.said("offset")) == (topic, "0", str(number))
        assert (one.said("timestamp"), one.said("attempt")) == (str(BASE_TIME_MS + number), "1")
        assert one.said("run") == ran.summary["run"] and one.said("schema").startswith(
            "value json orders.ddl "
        )
        assert len(one.said("topic_id")) == 36


def test_avro_and_protobuf_are_decoded_to_their_last_byte(
    spark: Any, bootstrap: str, create_topic: CreateTopic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both with a schema registry's header, and Avro with keys of JSON."""
    header = bytes(4) + b"\x09"
    avro, protobuf, output = create_topic(1), create_topic(1), str(tmp_path / "table")
    schema, descriptors, keys = tmp_path / "order.avsc", tmp_path / "shop.desc", tmp_path / "key.ddl"
    schema.write_text(
        '{"type": "record", "name": "Order", "fields": [{"name": "number", "type": "long"},'
        ' {"name": "name", "type": ["null", "string"]}]}'
    )
    descriptors.write_bytes(order_set())
    keys.write_text("k BIGINT")
    whole = header + b"\x0a\x02\x04ab"  # 5, the second branch, two bytes
    values = [whole, whole + b"!", whole[:-1], whole[5:], b"", header, None, whole + whole[5:]]
    producer = Producer({"bootstrap.servers": bootstrap})
    for number, value in enumerate(values):
        producer.produce(avro, value, key=b'{"k": %d}' % number if number < 6 else None)
    producer.produce(avro, whole, key=b"no JSON")
    assert producer.flush(30) == 0
    order = header + b"\x02\x02" + order_bytes(id=7, lines=["a"], totals={"EUR": 3}, seconds=9)
    send(bootstrap, protobuf, [order, order + b"\xff", order + b"\x78\x01", None, header + b"\x00", header])
    load = (
        *("load", "--bootstrap", bootstrap, "--output", output, "--reader", "odradek"),
        *("--on-bad-record", "dead-letter", "--bad-share-max", "1", "--value-header", "confluent"),
    )
    of_avro = ("--topic", avro, "--value-format", "avro", "--value-schema", str(schema))
    ran = pipeline(*load, *of_avro, "--key-format", "json", "--key-schema", str(keys))
    assert ran.code == PipelineExitCode.OK, capsys.readouterr().err
    assert (ran.summary["rows"], ran.summary["dead_letters"]) == (2, 7)
    assert [(one.said("offset"), one.said("error")) for one in letters(bootstrap, f"{avro}.dlq")] == [
        ("1", "value: bytes are left over behind the record"),
        ("2", "value: no record of the schema"),
        ("3", "value: no header of a schema registry: it is a zero and an id of four bytes"),
        ("4", "value: no header of a schema registry: it is a zero and an id of four bytes"),
        ("5", "value: no record of the schema"),
        ("7", "value: bytes are left over behind the record"),
        ("8", "key: no JSON, or more behind a JSON value"),
    ]
    of_protobuf = ("--topic", protobuf, "--value-format", "protobuf", "--value-schema", str(descriptors))
    ran = pipeline(*load, *of_protobuf, "--value-message", "shop.Order", "--value-prefix", "order_")
    assert ran.code == PipelineExitCode.OK, capsys.readouterr().err
    assert (ran.summary["rows"], ran.summary["dead_letters"]) == (2, 4)
    assert [(one.said("offset"), one.said("error")) for one in letters(bootstrap, f"{protobuf}.dlq")] == [
        ("1", "value: no message of the schema, or its end is missing"),
        ("2", "value: bytes are left over: fields that the schema does not have"),
        ("4", "value: another message of the schema: its indexes are [0], not [1]"),
        ("5", "value: the message indexes behind the header of the schema registry are cut off"),
    ]
    rows = table(spark, "parquet", output).orderBy("order_id", "offset").collect()
    assert [(one.offset, one.number, one.name, one.key_k, one.order_id) for one in rows] == [
        (0, 5, "ab", 0, None),
        (3, None, None, None, None),
        (6, None, None, None, None),
        (0, None, None, None, 7),
    ]
    last = rows[-1]
    assert (last.order_customer, last.order_lines[0].article, last.order_totals) == (None, "a", {"EUR": 3})
    assert (last.order_sent.timestamp(), last.order_state, last.order_size) == (9, "OPEN", 0)
