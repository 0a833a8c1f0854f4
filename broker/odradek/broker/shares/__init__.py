"""Share-partitions of this broker (KIP-932): which records each share group has acquired, and what became of them."""
