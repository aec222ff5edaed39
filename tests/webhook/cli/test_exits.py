"""What a source may use to be compiled by a command."""

import resource
import signal

import pytest

from webhook.child import Limits
from webhook.cli import exits
from webhook.cli.exits import InputError, compiling


def _spin() -> None:
    """Take for ever, and absorb what is raised in a callback, as finalizers do."""
    while True:
        try:
            while True:
                pass
        except Exception:  # noqa: BLE001, S110 - as a library might
            pass


def _swell() -> None:
    bytearray(2**30)


@pytest.mark.parametrize(
    ("work", "reason"), [(_spin, "took over 1 s to compile"), (_swell, "took over 64 MiB of memory to compile")]
)
def test_a_source_that_takes_too_much(monkeypatch: pytest.MonkeyPatch, work: object, reason: str) -> None:
    """It is named with the reason, and afterwards everything is as before."""
    monkeypatch.setattr(exits, "COMPILING", Limits(memory=64 * 2**20, seconds=1))
    before = resource.getrlimit(resource.RLIMIT_AS), signal.getsignal(signal.SIGVTALRM)
    assert callable(work)
    with pytest.raises(InputError, match=f"^a.yaml: {reason}$"), compiling("a.yaml"):
        work()

    assert (resource.getrlimit(resource.RLIMIT_AS), signal.getsignal(signal.SIGVTALRM)) == before
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
