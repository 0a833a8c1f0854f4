"""`odradek support-bundle`: what a maintainer needs, in one file. Parts, masks and the archive stand apart."""
