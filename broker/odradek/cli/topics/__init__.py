"""Verbs about topics and their settings."""
