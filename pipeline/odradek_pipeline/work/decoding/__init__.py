"""Decoding of records into columns: JSON and Avro by Spark's own functions, Protobuf by Python over Arrow."""
