"""The clients that Kafka's documents describe, on today's protocol. Users import them from `odradek.classic`."""
