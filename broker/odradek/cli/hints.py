"""Lines to copy and paste, for whoever has just started a broker."""

from __future__ import annotations


def hints(bootstrap: str) -> str:
    """How to write to and read from the broker at `bootstrap` with four clients."""
    return f"""\
Try it (copy and paste):

  odradek
    echo hello | odradek produce greetings --bootstrap {bootstrap}
    odradek consume greetings --from-beginning --bootstrap {bootstrap}

  kcat
    echo hello | kcat -P -b {bootstrap} -t greetings
    kcat -C -b {bootstrap} -t greetings -e

  Python (pip install confluent-kafka)
    from confluent_kafka import Producer
    producer = Producer({{"bootstrap.servers": "{bootstrap}"}})
    producer.produce("greetings", b"hello")
    producer.flush()

  Spark (pyspark --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0)
    spark.read.format("kafka").option("kafka.bootstrap.servers", "{bootstrap}") \\
      .option("subscribe", "greetings").load().selectExpr("CAST(value AS STRING)").show()
"""
