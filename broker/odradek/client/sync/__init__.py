"""The synchronous form of the client: each class has an object of asyncio's form, which a loop's own thread runs."""
