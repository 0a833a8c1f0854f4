"""The transaction coordinator: states of transactional ids in `__transaction_state`, and markers to partitions."""
