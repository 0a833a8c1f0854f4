"""One controller process of a cluster: elections, terms, and what brokers ask it for."""
