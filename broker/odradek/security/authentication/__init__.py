"""SASL mechanisms with both ends of each, and the credentials that they check."""
