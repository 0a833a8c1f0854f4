"""The parts of `metadata.registry.zookeeper_store`: one session, lasting watches, addresses, access and encryption."""
