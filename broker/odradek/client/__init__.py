"""A client library for users and for our own tools: bootstrap, metadata, admin, producer, consumer."""
