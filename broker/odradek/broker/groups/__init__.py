"""Consumer groups: members, their assignments and their committed offsets."""
