"""Speed and memory of the service, as ratios against a bare aiohttp echo. `docs/benchmarks.md` says how and why."""

import sys
from pathlib import Path

# The control plane that the proofs run on is a package of the tests.
sys.path.append(str(Path(__file__).parent.parent / "tests"))
