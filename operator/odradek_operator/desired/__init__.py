"""Desired state: a resource's manifests, as pure functions of its checked values."""
