"""Parquet files with a log of manifests: a file is part of the table when a manifest says so."""
