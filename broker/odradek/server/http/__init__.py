"""The HTTP server of a process: metrics, probes, and the operator's requests. The only user of aiohttp."""
