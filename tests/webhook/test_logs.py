"""Logs: what a line holds, in which form, and that no part of an object ever gets into one."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest
import structlog
from structlog.testing import capture_logs
from support.builders import Json, deployment, pod, request
from support.service.reviews import TODAY, violation
from support.service.servers import default_rules

from policies.engine.engine import Answer, Decision, RuleFailure, mutate, validate
from policies.engine.facts import StaticFacts
from policies.engine.rule import PolicyException, SkippedError
from webhook import logs
from webhook.configuration.rulesettings import LogLevel
from webhook.logs import INTERVAL, Seldom, Sink

_SECRET = "tell-nobody"
_RULES = default_rules(topology={"action": "off"})
_REFUSED = deployment(
    labels={"foo.coreweave.cloud/bar": _SECRET},
    template_labels={"x.coreweave.com/y": _SECRET, "z.coreweave.com/y": _SECRET},
    metadata={"namespace": "team", "annotations": {"note": _SECRET}},
    env=[{"name": "PASSWORD", "value": _SECRET}],
)


def _logged(answer: Answer, asked: Any = None, phase: Any = "validate") -> Json:
    """The one event of an answered review."""
    with capture_logs() as found:
        logs.log_answer(structlog.get_logger(), phase, asked or request(pod()), answer)
    (event,) = found
    return dict(event)


def test_a_refusal_is_logged_by_what_it_is_about() -> None:
    """A refusal's line names who asked for what, and each rule's verdict with the paths, and nothing of the object."""
    asked = request(_REFUSED, dry_run=True)
    event = _logged(validate(asked, _RULES, StaticFacts(TODAY)), asked)

    assert event == {
        "event": "review",
        "log_level": "info",
        "phase": "validate",
        "uid": "7f6e1a5c-0b7e-4b0e-9a53-0d6c4f6f2a11",
        "user": "alice",
        "operation": "CREATE",
        "resource": "apps/deployments",
        "namespace": "team",
        "name": "trainer",
        "dry_run": True,
        "allowed": False,
        "decisions": {
            "labels": ["deny", "metadata.labels", "spec.template.metadata.labels"],
            "guard": ["admit"],
            "selectors": ["admit"],
        },
        "exceptions": {},
        "errors": [],
    }
    assert _SECRET not in str(event)


def test_a_patch_is_logged_without_its_values() -> None:
    """A mutation's line has the verdict; what was patched in stays out."""
    asked = request(pod(labels={"a": _SECRET}))
    event = _logged(mutate(asked, _RULES, StaticFacts(TODAY)), asked, "mutate")

    assert (event["log_level"], event["phase"], event["decisions"]) == ("debug", "mutate", {"tolerations": ["patch"]})
    assert _SECRET not in str(event)
    assert "is_cpu_compute" not in str(event)


_BAD = (violation(),)
_PASSED = PolicyException("moving", ("tidy", "sunk"), "new house", TODAY)


@pytest.mark.parametrize(
    ("decisions", "level", "told"),
    [
        pytest.param([], "debug", {}, id="no-rule"),
        pytest.param([Decision("tidy", "admit")], "debug", {}, id="admit"),
        pytest.param([Decision("tidy", "patch")], "debug", {}, id="patch"),
        pytest.param([Decision("tidy", "audit", _BAD)], "debug", {}, id="audit"),
        pytest.param([Decision("labels", "admit"), Decision("tidy", "deny", _BAD)], "info", {}, id="deny"),
        pytest.param([Decision("tidy", "warn", _BAD)], "info", {}, id="warn"),
        pytest.param(
            [Decision("tidy", "excepted", _BAD, exception=_PASSED), Decision("sunk", "admit", exception=_PASSED)],
            "info",
            {"exceptions": {"tidy": "moving"}},
            id="excepted",
        ),
        pytest.param(
            [Decision("tidy", "error", failure=RuleFailure(ValueError("x"), "Fail"))],
            "info",
            {"errors": ["ValueError('x')"]},
            id="error",
        ),
        pytest.param(
            [Decision("tidy", "error", failure=RuleFailure(ValueError("x"), "Ignore"))],
            "debug",
            {"errors": ["ValueError('x')"]},
            id="ignored-error",
        ),
    ],
)
def test_what_is_admitted_is_logged_at_debug_only(decisions: list[Decision], level: str, told: Json) -> None:
    """Admissions are for debugging; a refusal, a warning, an exception in force and a failure are news with reason."""
    event = _logged(Answer(tuple(decisions)))

    assert event["log_level"] == level
    assert {key: event[key] for key in ("exceptions", "errors") if event[key]} == told


def test_a_skipped_rule_is_told_once_a_minute() -> None:
    """Who lets requests pass because a rule cannot judge them says so, and how often, without flooding the log."""
    times = iter([0.0, 10.0, 59.9, 60.0, 61.0])
    error = SkippedError(f"expression 'object.spec.x' resulted in error: {_SECRET}")
    answer = Answer((Decision("tidy", "error", failure=RuleFailure(error, "Ignore")), Decision("other", "admit")))

    with capture_logs() as events:
        seldom = Seldom(structlog.get_logger(), lambda: next(times))
        for _ in range(5):
            logs.log_skips(seldom, request(pod()), answer)
        refused = Answer((Decision("tidy", "error", failure=RuleFailure(error, "Fail")),))
        logs.log_skips(seldom, request(pod()), refused)

    told = [(event["event"], event["log_level"], event["rule"], event["times"], event["resource"]) for event in events]
    assert told == [
        ("rule skipped", "warning", "tidy", 1, "pods"),
        ("rule skipped", "warning", "tidy", 3, "pods"),
    ]
    assert _SECRET not in str(events)


@pytest.mark.parametrize(
    ("asked", "resource", "name"),
    [
        (request(pod(), sub_resource="status"), "pods/status", "trainer"),
        (request(deployment(), sub_resource="scale"), "apps/deployments/scale", "trainer"),
        (request({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "train-"}}), "pods", "train-…"),
        (request(None, old=pod(), name="trainer"), "pods", "trainer"),
    ],
    ids=["core", "group", "generated", "delete"],
)
def test_a_resource_is_named(asked: Any, resource: str, name: str) -> None:
    """Group, resource and subresource are one word, and a name that is still to be made shows its beginning."""
    event = _logged(Answer(), asked)

    assert (event["resource"], event["name"]) == (resource, name)


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[TextIO]:
    """Where lines are logged to."""
    with (tmp_path / "log").open("w") as made:
        yield made


def _lines(stream: TextIO) -> list[str]:
    return Path(stream.name).read_text(encoding="utf-8").splitlines()


def test_a_line_is_one_json_object(stream: TextIO) -> None:
    """JSON lines have time, level and event first; values that JSON does not know become text."""
    logs.configure("info", "auto", stream)

    structlog.get_logger().warning("of note", where=Path("a/b"), text="two\nlines", error=ValueError("x"), n=1)

    (line,) = _lines(stream)
    event = json.loads(line)
    assert list(event)[:3] == ["timestamp", "level", "event"]
    assert event.pop("timestamp").endswith("Z")
    assert event == {"level": "warning", "event": "of note", "where": "a/b", "text": "two\nlines", "error": "x", "n": 1}


def test_a_line_of_text_forges_no_other(stream: TextIO) -> None:
    """In logs for people, too, control characters are escaped, and further lines of a text are below its line."""
    logs.configure("info", "text", stream)

    logging.getLogger("library").warning("of\x1b[2J note\nforged")
    structlog.get_logger().warning("of note", name="a\x1b[2J\nforged", names=["\u202e\n"])

    first, second, third = _lines(stream)
    assert first.endswith("of\\u001b[2J note")
    assert second.startswith("  forged ")
    assert third.endswith(r"name='a\x1b[2J\nforged' names=['\u202e\n']")


@pytest.mark.parametrize(
    ("form", "terminal", "as_json"),
    [
        pytest.param("auto", False, True, id="auto-elsewhere"),
        pytest.param("auto", True, False, id="auto-on-a-terminal"),
        pytest.param("json", True, True, id="json-on-a-terminal"),
        pytest.param("text", False, False, id="text-elsewhere"),
    ],
)
def test_the_form_follows_the_setting(
    form: Any, stream: TextIO, monkeypatch: pytest.MonkeyPatch, *, terminal: bool, as_json: bool
) -> None:
    """Text is for terminals and JSON for machines, unless the setting says which."""
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    logs.configure("info", form, stream)
    structlog.get_logger().info("of note", number=7)

    (line,) = _lines(stream)
    assert line.startswith("{") is as_json
    assert ("\x1b[" in line) == (terminal and not as_json)
    assert "of note" in line


_LEVELS: tuple[LogLevel, ...] = ("debug", "info", "warning", "error")


@pytest.mark.parametrize("level", _LEVELS)
def test_the_level_is_the_least_that_is_shown(level: LogLevel, stream: TextIO) -> None:
    """Lines below the level of the setting are left out."""
    logs.configure(level, "json", stream)
    log = structlog.get_logger()
    for name in _LEVELS:
        getattr(log, name)("x")

    assert tuple(json.loads(line)["level"] for line in _lines(stream)) == _LEVELS[_LEVELS.index(level) :]


def test_what_libraries_log_is_json_too(stream: TextIO) -> None:
    """A warning of a library is one JSON object on one line like all the rest, its traceback within."""
    logs.configure("info", "json", stream)

    try:
        raise ValueError("deep down")  # noqa: TRY301
    except ValueError:
        logging.getLogger("aiohttp.server").exception("Error handling request")

    (line,) = _lines(stream)
    assert "Error handling request" in json.loads(line)["event"]
    assert "deep down" in line


def test_an_event_is_logged_once_in_a_while() -> None:
    """The first one is logged at once, the next one after a minute, with how often it has happened since."""
    now = [100.0]
    with capture_logs() as lines:
        seldom = Seldom(structlog.get_logger(), lambda: now[0])
        for _ in range(1000):
            seldom.warning("full", bytes=1)
        seldom.warning("other")
        seldom.info("other", "of another kind")
        now[0] += INTERVAL
        seldom.warning("full", bytes=2)

    assert lines == [
        {"event": "full", "log_level": "warning", "bytes": 1, "times": 1},
        {"event": "other", "log_level": "warning", "times": 1},
        {"event": "other", "log_level": "info", "times": 1},
        {"event": "full", "log_level": "warning", "bytes": 2, "times": 1000},
    ]


@pytest.fixture
def pipe() -> Iterator[tuple[int, Sink]]:
    """The reading end of a pipe, and what writes to the other one without waiting."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    yield reading, Sink(writing, "{} lost".format)
    os.close(reading)
    os.close(writing)


def test_a_full_pipe_loses_lines_and_says_how_many(pipe: tuple[int, Sink]) -> None:
    """Nobody waits for a reader; once there is one, a torn line is ended, and a line says how many were lost."""
    reading, written = pipe
    for text in ("x" * 1_000_000, "one", "two"):
        written.write(f"{text}\n")
    assert set(os.read(reading, 1_000_000)) == {ord("x")}
    written.write("three\n")
    written.write("four\n")

    assert os.read(reading, 1_000_000) == b"\n3 lost\nthree\nfour\n"


def test_of_many_lines_those_are_lost_that_were_not_written(pipe: tuple[int, Sink]) -> None:
    """Of lines that come together, those count as lost that found no room, the torn one among them, each once."""
    reading, written = pipe
    written.write("x" * 99 + "\n")
    written.write(100 * ("y" * 9_999 + "\n"))
    lost = written.take_lost()

    assert os.read(reading, 1_000_000).count(b"\n") + lost == 101
    assert written.take_lost() == 0
    written.write("one\ntwo\n")
    assert os.read(reading, 1_000_000) == f"\n{lost} lost\none\ntwo\n".encode()


def test_files(tmp_path: Path) -> None:
    """Whatever its length and its characters, a line that fits is written as it is; one on a full disk is just lost."""
    for path in (tmp_path / "log", Path("/dev/full")):
        with path.open("wb") as file:
            Sink(file.fileno(), str).write(f"{'é' * 10_000}\ud800\n")

    assert (tmp_path / "log").read_bytes() == "é".encode() * 10_000 + b"\\ud800\n"
