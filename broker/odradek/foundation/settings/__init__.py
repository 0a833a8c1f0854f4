"""Settings of every program: declared once, read from texts, checked, and named in errors."""
