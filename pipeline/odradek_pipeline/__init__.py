"""The PySpark pipeline's package. It reaches the log only through Spark's Kafka connector and imports none of the broker."""
