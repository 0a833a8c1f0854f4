"""The PySpark pipeline: it reaches the log only through Spark's Kafka connector and imports none of the broker."""
