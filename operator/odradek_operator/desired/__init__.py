"""What shall be there: a resource's manifests, as pure functions of its checked values."""
