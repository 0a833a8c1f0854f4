"""What `registry.zookeeper_store` is made of: one session, lasting watches, addresses, access and encryption."""
