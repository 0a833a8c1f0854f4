"""`odradek top`: a cluster at a terminal. What is asked, what follows from two looks, and the screen stand apart."""
