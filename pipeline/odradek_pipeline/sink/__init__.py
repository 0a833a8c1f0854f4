"""`format("odradek")` for writing: frames and streams into topics by transactions, each batch once."""
