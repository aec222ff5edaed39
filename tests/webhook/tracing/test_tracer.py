"""Which reviews are traced."""

import pytest

from webhook.opentelemetry import Tracer
from webhook.tracing import Trace

_SAMPLED = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
_UNSAMPLED = _SAMPLED[:-1] + "0"
_BROKEN = "00-00000000000000000000000000000000-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    ("sent", "share", "traced"),
    [
        pytest.param(_SAMPLED, 0, True, id="the caller traces"),
        pytest.param(_UNSAMPLED, 1, False, id="the caller does not trace"),
        pytest.param("", 1, True, id="the caller says nothing, all are traced"),
        pytest.param("", 0, False, id="the caller says nothing, none is traced"),
        pytest.param(_BROKEN, 1, True, id="the caller says nothing that can be read, all are traced"),
        pytest.param(_BROKEN, 0, False, id="the caller says nothing that can be read, none is traced"),
    ],
)
def test_the_caller_decides_before_the_share_does(sent: str, share: float, traced: bool) -> None:  # noqa: FBT001 - a case
    """A valid traceparent decides; without one, the share does."""
    tracer = Tracer(share, 0.001, lambda _: None)

    assert (tracer.begin({"traceparent": sent} if sent else {}) is not None) is traced


def test_a_rule_that_takes_less_has_no_span() -> None:
    """Only slow rules have a span; all of them are told to the other listener."""
    told: list[object] = []
    quick, slow = Trace(None, 3600.0), Trace(None, 0.0)
    for trace in (quick, slow):
        lap = trace.laps(told.append)
        lap("labels")
        lap(("first", "second"))

    assert told == ["labels", ("first", "second")] * 2
    assert quick.spans == []
    assert [(span.name, span.attributes) for span in slow.spans] == [
        ("rule", {"cks_admission.rule": "labels"}),
        ("rules", {"cks_admission.rules": 2}),
    ]
