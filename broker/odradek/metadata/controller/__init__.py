"""The cluster's decisions: the only writer of its metadata. Brokers follow the resulting images."""
