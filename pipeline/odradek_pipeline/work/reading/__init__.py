"""Readers: ranges of topics as frames. Each connector is one module with one class."""
