"""What the data source and its sink share: their options, and our asyncio client for code that is not asyncio."""
