"""Bytes without I/O: batches of records, and the frames and messages of the protocol."""
