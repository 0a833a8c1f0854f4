"""Listeners whose connections log in, and the end of connections whose login is gone."""
