"""Who somebody is: SASL mechanisms with both ends of each, and their credentials."""
