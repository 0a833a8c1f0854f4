"""A machine of several brokers: a process that starts the others, notices each end, and stops them all."""
