"""The states of share-partitions in `__share_group_state`, and their coordinator (KIP-932)."""
