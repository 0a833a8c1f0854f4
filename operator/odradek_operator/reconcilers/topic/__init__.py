"""Topic: what is wanted of a topic, compared with what the brokers have, for all Topics of a cluster at once."""
