"""Sends records: partitions (`partitioners`), batches (`batches`), requests (`sender`), the API (`producer`)."""
