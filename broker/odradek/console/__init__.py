"""A console of one cluster in a browser: pages over our own client, which also show an Apache Kafka."""
