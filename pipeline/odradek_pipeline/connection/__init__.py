"""The ways to Spark and to the brokers: the session, our client, and what is asked of it."""
