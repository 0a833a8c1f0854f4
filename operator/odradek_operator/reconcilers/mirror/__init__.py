"""Mirrors: the workers that copy topics between clusters, and what they report."""
