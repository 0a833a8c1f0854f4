"""Schemas by their ids, from a schema registry, and what they make of a record's bytes."""
