"""Verbs about brokers, their disks and what moves between them."""
