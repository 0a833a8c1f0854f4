"""Sending records: partitions (`partitioners`), batches (`batches`), requests (`sender`), the API (`producer`)."""
