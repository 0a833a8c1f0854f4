"""HTTP beside a process: metrics, probes, and questions of the operator. The only user of aiohttp."""
