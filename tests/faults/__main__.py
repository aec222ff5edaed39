"""`python -m faults`: does faults to the real service, and writes what happened into docs/reliability.md."""

from __future__ import annotations

import argparse
import signal
import sys
import time
import traceback
from datetime import UTC, datetime

from faults import clocks, crowds, hostile, references, releases, reloads, watches
from faults.page import PAGE, conditions
from faults.resources import Neighbours
from faults.site import Site, Sizes
from faults.table import Fault, Result, Row, line, name, replaced, words

FAULTS: tuple[Fault, ...] = (
    hostile.stall,
    hostile.hostile,
    crowds.large_reviews,
    crowds.slow_connections,
    crowds.out_of_descriptors,
    crowds.full_disk,
    crowds.unread_logs,
    reloads.policy_edits,
    reloads.policy_directory,
    clocks.clock_ahead,
    clocks.certificate_from_the_future,
    references.parameters_150,
    references.parameters_1000,
    references.slow_access_reviews,
    references.failing_access_reviews,
    watches.cut_off,
    watches.gone,
    watches.restarted_api_server,
    releases.stopped_replica,
    releases.version_skew,
    releases.cold_start,
)


def main() -> None:
    """Do the faults that are asked for. Exits with 1 if a promise did not hold, or a fault could not be done."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # so that all processes are ended too
    rows = []
    with Site(Sizes(options.edits, options.edit_rate)) as site:
        for fault in FAULTS:
            if name(fault) in options.rows:
                rows.append(_done(fault, site))
                _write(rows)
    failures = [f"{row.name}: {'; '.join(row.failures)}" for row in rows if row.failures]
    sys.exit("Promises that did not hold:\n" + "\n".join(failures) if failures else 0)


def _done(fault: Fault, site: Site) -> Row:
    """A fault with its result; one that could not be done is one whose promise did not hold."""
    _say(f"{name(fault)}: {words(fault)[0]}")
    began = time.monotonic()
    with Neighbours() as neighbours:
        try:
            result = fault(site)
        except Exception as error:  # noqa: BLE001 - the other rows are done, and this one says what it met
            traceback.print_exc()
            said = str(error).splitlines() or [""]
            result = Result("", "", 0.0, {f"could not be done: {type(error).__name__}: {said[0][:200]}": False})
    row = Row(name(fault), *words(fault), result, f"{datetime.now(UTC):%Y-%m-%d}", neighbours.busy)
    _say(f"{time.monotonic() - began:.0f} s {line(row)}")
    return row


def _write(rows: list[Row]) -> None:
    written = replaced(PAGE.read_text(encoding="utf-8"), rows, [name(fault) for fault in FAULTS], conditions())
    PAGE.write_text(written, encoding="utf-8")


def _options() -> argparse.Namespace:
    names = [name(fault) for fault in FAULTS]
    sizes = Sizes()
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    parser.add_argument("--row", dest="rows", nargs="+", metavar="NAME", choices=names, default=names,
                        help=f"only these rows, of {', '.join(names)}")  # fmt: skip
    parser.add_argument("--edits", type=int, default=sizes.edits, help="edits of a policy (default: %(default)s)")
    parser.add_argument("--edit-rate", type=float, default=sizes.edit_rate, help="a second (default: %(default)g)")
    return parser.parse_args()


def _say(line: str) -> None:
    print(f"faults: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
