"""Partitions at work: leaders, high watermarks, requests that wait, and the background duties of the logs."""
