"""The bytes that are packed and read by hand: Produce, Fetch, and what followers fetch by.

Each module is a set of functions of plain values: bytes, numbers, text, tuples and lists of these, and slices of files.
They hold no state and know nothing of partitions, sessions or images. So a compiled form can take the place of any of
them. `tests/wire/protocol/hot` is their contract: every implementation gives what the generic codec gives, in every
version, and refuses what it refuses.
"""
