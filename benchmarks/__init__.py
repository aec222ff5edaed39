"""Speed and memory of the service as ratios against a bare aiohttp echo. `docs/benchmarks.md` says how and why."""
