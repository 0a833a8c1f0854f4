"""Custom resources as checked values, each declared once: parsing, schema, rules and reference page follow from it."""
