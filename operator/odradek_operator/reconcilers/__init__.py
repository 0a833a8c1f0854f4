"""Reconcilers, a package for each kind: read what is there, decide (a pure function), carry it out, write a status."""
