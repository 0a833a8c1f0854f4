"""Odradek's jobs for Spark: a topic's records to files, streams back into topics, and the image's entry point.

Spark is imported by what uses it, never here: the entry point starts a JVM and has no need of it.
"""
