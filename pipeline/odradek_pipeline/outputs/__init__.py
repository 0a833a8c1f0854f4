"""Outputs: tables that hold records together with the record of their ranges, in one commit."""
