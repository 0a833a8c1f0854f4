"""`make demo`: a tour of Odradek with real clients, told as it goes, in less than a minute."""
