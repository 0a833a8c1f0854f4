"""The common part of the data source and its sink: options, and our asyncio client for code that is not asyncio."""
