"""Records on their way to a file."""

from __future__ import annotations

from pathlib import Path

from support.service.reviews import violation

from policies.engine.engine import Answer, Decision, RuleFailure, Unanimity
from webhook.configuration.settings import DecisionsSettings, SampleSettings
from webhook.decisions.log import Output, Sampling


def _written(directory: Path, *lines: str, longest: int, older: int) -> dict[str, str]:
    """The files after these lines were written."""
    output = Output(directory / "log", longest, older)
    for line in lines:
        output.write(line.encode())
    output.close()
    return {file.name: file.read_text(encoding="utf-8") for file in sorted(directory.iterdir())}


def test_files_are_rotated(tmp_path: Path) -> None:
    """A file that would get too large is renamed, and of the older ones so many are kept; no line is torn."""
    texts = _written(tmp_path, *(f"line {number}\n" for number in range(8)), longest=12, older=2)

    assert texts == {"log": "line 7\n", "log.1": "line 6\n", "log.2": "line 5\n"}
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_a_torn_line_is_ended(tmp_path: Path) -> None:
    """A process that begins with a file whose last line is torn writes its own on a new one."""
    (tmp_path / "log").write_text("half", encoding="utf-8")

    assert _written(tmp_path, "whole\n", longest=1000, older=1) == {"log": "half\nwhole\n"}


_ADMITTED = Answer(Unanimity((Decision("labels", "admit"), Decision("team", "admit"))))
_WARNED = Answer((Decision("labels", "admit"), Decision("team", "warn", (violation(),))))
_REFUSED = Answer((Decision("labels", "deny", (violation(),)), Decision("team", "admit")))
_FAILED = Answer((Decision("team", "error", failure=RuleFailure(ValueError("x"), "Ignore")),))
_ANSWERS = {"none": Answer(), "admitted": _ADMITTED, "warned": _WARNED, "refused": _REFUSED, "failed": _FAILED}


def _taken(*samples: SampleSettings) -> set[str]:
    sampling = Sampling(samples)
    return {name for name, answer in _ANSWERS.items() for _ in range(2) if sampling.takes("uid", answer)}


def test_the_default_takes_refusals_and_failures() -> None:
    """Nothing that was admitted is recorded unless somebody asks for it, but for rules that failed."""
    assert _taken(*DecisionsSettings().samples) == {"refused", "failed"}


def test_the_first_entry_with_rule_and_verdict_counts() -> None:
    """An entry may leave out a rule that a later one would take; an answer without any rule is an admission."""
    everything = SampleSettings(verdicts=("admit", "warn"))

    assert _taken() == set()
    assert _taken(everything) == {"none", "admitted", "warned", "refused"}
    assert _taken(SampleSettings(verdicts=("admit",), rules=("t*",))) == {"admitted", "refused"}
    assert _taken(SampleSettings(verdicts=("admit", "warn"), share=0), everything) == set()


def test_a_share_goes_by_the_uid() -> None:
    """Of many reviews about the share is taken, and each one always or never."""
    sampling = Sampling((SampleSettings(verdicts=("deny",), share=0.25),))
    taken = [uid for uid in map(str, range(4000)) if sampling.takes(uid, _REFUSED)]

    assert 900 < len(taken) < 1100
    assert [uid for uid in map(str, range(4000)) if sampling.takes(uid, _REFUSED)] == taken
