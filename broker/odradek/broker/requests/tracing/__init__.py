"""Traces of requests: a step of the dispatcher that brokers have while trace.enable is set."""
