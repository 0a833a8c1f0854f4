"""`make demo`: a tour of Odradek with real clients, which explains each step, in less than a minute."""
