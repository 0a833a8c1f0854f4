"""One controller process of a cluster: elections, terms, and the requests of brokers."""
