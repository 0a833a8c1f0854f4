"""Dead letters: records that cannot be read, in a topic of their own, with where they are from and why."""
