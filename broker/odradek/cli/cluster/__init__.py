"""Verbs that start processes, and those about the whole cluster."""
