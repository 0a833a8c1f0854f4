"""Reads records: from partitions chosen by the caller (`consumer`) or shared among a group (`group`)."""
