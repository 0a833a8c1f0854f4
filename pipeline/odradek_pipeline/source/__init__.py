"""`format("odradek")` for reading: topics as a batch or a stream of Arrow batches, by our own client."""
