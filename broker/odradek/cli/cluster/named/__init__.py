"""Brokers with names, for development: each has a folder, a port and options of its own, and runs in the background."""
