"""Work queues (KIP-932): a member of a share group, what it is given, and what it answers for each record."""
