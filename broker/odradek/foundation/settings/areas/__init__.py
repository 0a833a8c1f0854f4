"""The broker's settings, one module per area: each key is declared once, as a class attribute.

An attribute's name is the key with dots for underscores: `log_segment_bytes` is `log.segment.bytes`.
`foundation.settings.broker_settings` joins the areas into one class and reads `server.properties`.
"""
