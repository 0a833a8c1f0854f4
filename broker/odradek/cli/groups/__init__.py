"""Verbs about groups and transactions."""
