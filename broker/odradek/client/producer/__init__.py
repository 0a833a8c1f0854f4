"""Sending records: where each goes (`partitioners`), what travels together (`batches`), who sends it (`producer`)."""
