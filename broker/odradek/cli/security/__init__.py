"""Verbs about users, their rights and what is open."""
