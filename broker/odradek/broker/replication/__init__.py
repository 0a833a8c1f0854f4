"""Partitions at work: leaders, followers, high watermarks, requests that wait, and the background duties of logs."""
