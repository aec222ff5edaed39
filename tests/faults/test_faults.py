"""The table of faults, and one fault that is quickly done."""

from __future__ import annotations

import pytest

from faults import crowds, page, table
from faults.__main__ import FAULTS
from faults.calls import Calls
from faults.site import Site, Sizes
from faults.soak.sample import Sample, draw
from faults.table import Result, Row, name, words

_PAGE = """# Title

<!-- faults: begin -->
Last run: earlier.

| `old`: An old one. | Nothing. | a | b | at once | yes | 2026-01-01 |
| `gone`: One that is no more. | Nothing. | a | b | at once | yes | 2026-01-01 |
<!-- faults: end -->

The rest.
"""


def test_a_run_replaces_its_rows_alone() -> None:
    """The rows of a run take their places, a promise that did not hold is shown, and the others stay as they are."""
    result = Result("a | b\nc", "nothing", 1.25, {"no loss": False}, ("no delay",))
    row = Row("new", "A new one.", "All of it.", result, "2026-02-02")
    slow = Result("a", "b", 0.0, {}, ("no delay",))
    busy = Row("busy", "Among others.", "All of it.", slow, "2026-02-02", "a load of 9")

    assert (
        table.replaced(_PAGE, [row, busy], ["new", "busy", "old"], "today, with version 1")
        == """# Title

<!-- faults: begin -->
Last run: today, with version 1.

| fault | promise | what people saw | what was lost | healthy after | held | run |
|---|---|---|---|---|---|---|
| `new`: A new one. | All of it. | a \\| b c | nothing | 1.2 s | **no**: no loss; no delay | 2026-02-02 |
| `busy`: Among others. | All of it. | a | b | no loss | not judged (machine busy: a load of 9): no delay | 2026-02-02 |
| `old`: An old one. | Nothing. | a | b | at once | yes | 2026-01-01 |
<!-- faults: end -->

The rest.
"""
    )


def test_latency_is_not_judged_on_a_busy_machine() -> None:
    """There only other promises can fail; elsewhere those of latency do too."""
    result = Result("", "", 0.0, {"no loss": False}, ("no delay",))
    rows = [Row("a", "b", "c", result, "2026-02-02", busy) for busy in ("a load of 9", "")]

    assert [row.failures for row in rows] == [("no loss",), ("no loss", "no delay")]


def test_a_late_answer_breaks_its_promise() -> None:
    """A p99 holds below its limit, and only where there are answers."""
    calls = [Calls(seconds) for seconds in ([0.5] * 99 + [2.0], [0.5] * 98 + [2.0] * 2, [])]

    assert [each.slow("guard") for each in calls] == [("guard p99 under 1000 ms",)] * 3
    assert Calls([0.5] * 200 + [2.0]).slow("guard") == ()
    assert Calls([0.5] * 200, late=1).slow("guard") == ("guard never later than 5 s",)


def test_a_page_without_a_block_is_refused() -> None:
    """A run that has nowhere to write says which marks are missing."""
    with pytest.raises(page.NoBlockError, match="no block between <!-- faults: begin --> and <!-- faults: end -->"):
        table.replaced("# Title", [], [], "")


def test_the_page_has_a_row_for_every_fault() -> None:
    """Each fault has a name of its own, says what it is and what is promised, and stands in the documentation."""
    names = [name(fault) for fault in FAULTS]

    assert len(set(names)) == len(names)
    assert [fault for fault in FAULTS if not all(words(fault))] == []
    written = page.block(page.PAGE.read_text(encoding="utf-8"), "faults")
    assert [each for each in names if not any(line.startswith(f"| `{each}`: ") for line in written)] == []


def test_logs_that_cannot_be_written_stop_nobody() -> None:
    """With a full disk from the start the service answers every call rightly."""
    with Site(Sizes(seconds=1)) as site:
        assert crowds.full_disk(site).broken == ()


def test_a_picture_of_a_soak_has_a_line_for_each_series() -> None:
    """Two replicas have two lines for memory and two for descriptors, and latency has one."""
    samples = [Sample(5.0 * n, 100.0, 1.0, 2.0, 3.0, 0, 0, (80.0, 81.0), (30, 31)) for n in range(1, 4)]

    drawn = draw(samples, "two replicas")

    assert drawn.count("<polyline") == 5
    assert "two replicas" in drawn
