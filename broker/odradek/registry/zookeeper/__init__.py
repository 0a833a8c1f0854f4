"""The parts of `registry.zookeeper_store`: one session, lasting watches, addresses, access and encryption."""
