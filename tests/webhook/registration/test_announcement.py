"""Which entries are registered while replicas of several versions run."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties.shapes import bounded
from support.api.fakeapi import Json

from webhook.registration.configurations import Announcement, announced, closed_paths, path_of

KIND = "ValidatingWebhookConfiguration"
OLD, NEW = "/validate/old", "/validate/new"


def entry(path: str, policy: str = "Fail", domain: str = "cks-admission.dev") -> Json:
    """An entry of a configuration."""
    client = {"service": {"name": "s", "namespace": "n", "path": path}}
    return {"name": f"{path.rpartition('/')[2]}.{domain}", "clientConfig": client, "failurePolicy": policy}


def configuration(*entries: Json) -> dict[str, Json]:
    """The one configuration, by its kind; none without entries."""
    return {KIND: {"kind": KIND, "metadata": {"name": "x"}, "webhooks": list(entries)}} if entries else {}


def replica(name: str, paths: Iterable[str] | None, *, ready: bool = True) -> Announcement:
    """A replica."""
    return Announcement(name, ready=ready, paths=None if paths is None else frozenset(paths))


DESIRED = configuration(entry(OLD), entry(NEW), entry("/validate/open", "Ignore"))
BEFORE = configuration(entry(OLD))
KNOWS, LACKS = (OLD, NEW), (OLD,)


@pytest.mark.parametrize(
    ("observed", "replicas", "waits_for"),
    [
        pytest.param(BEFORE, [replica("a", KNOWS), replica("b", KNOWS)], None, id="all-know-it"),
        pytest.param(BEFORE, [replica("a", KNOWS), replica("b", LACKS)], ("b",), id="one-lacks-it"),
        pytest.param(BEFORE, [replica("a", KNOWS), replica("b", LACKS, ready=False)], ("b",), id="not-ready-yet"),
        pytest.param(BEFORE, [replica("a", KNOWS), replica("b", None)], ("b",), id="one-has-not-said"),
        pytest.param(BEFORE, [replica("a", KNOWS), replica("b", None, ready=False)], None, id="one-is-starting"),
        pytest.param(BEFORE, [replica("a", KNOWS, ready=False)], ("no replica is ready",), id="none-is-ready"),
        pytest.param(DESIRED, [replica("a", KNOWS), replica("b", LACKS, ready=False)], ("b",), id="taken-away"),
        pytest.param(DESIRED, [replica("a", None), replica("b", None)], None, id="a-partition-takes-nothing"),
        pytest.param(DESIRED, [], None, id="all-dead-takes-nothing"),
    ],
)
def test_an_entry_waits_for_replicas(
    observed: dict[str, Json], replicas: list[Announcement], waits_for: tuple[str, ...] | None
) -> None:
    """It comes when all that are ready know it, goes for one that does not, and stays if nobody answers."""
    remaining, withheld = announced(DESIRED, observed, replicas)

    paths = [path_of(each) for each in remaining[KIND]["webhooks"]]
    assert paths == ([OLD, NEW, "/validate/open"] if waits_for is None else [OLD, "/validate/open"])
    told = f"new.cks-admission.dev fails closed at {NEW}, and is not registered before all replicas answer there: "
    assert withheld == ([] if waits_for is None else [told + ", ".join(waits_for)])


_PATHS = st.sets(st.sampled_from([OLD, NEW]))
_REPLICAS = st.lists(
    st.builds(Announcement, st.just("r"), ready=st.booleans(), paths=st.none() | _PATHS.map(frozenset))
)


@bounded
@given(_REPLICAS, _PATHS)
def test_nobody_is_asked_what_he_does_not_know(replicas: list[Announcement], before: set[str]) -> None:
    """Of any replicas none is known not to answer an entry that fails closed, and no ready one may lack a new one."""
    remaining, withheld = announced(DESIRED, configuration(*map(entry, sorted(before))), replicas)

    closed = set(closed_paths(remaining.values()))
    lacking = {path for path in (OLD, NEW) for each in replicas if each.paths is not None and path not in each.paths}
    unsure = {path for path in (OLD, NEW) for each in replicas if each.ready and path not in (each.paths or ())}
    assert not closed & lacking
    assert not (closed - before) & unsure
    assert closed >= before - lacking
    assert {path for path in (OLD, NEW) for each in withheld if f" at {path}, " in each} == {OLD, NEW} - closed
    assert any(each["failurePolicy"] == "Ignore" for each in remaining[KIND]["webhooks"])


def test_a_configuration_without_entries_is_none() -> None:
    """Where every entry waits there is no configuration to write."""
    assert announced(configuration(entry(NEW)), {}, [])[0] == {}


def test_only_own_entries_that_fail_closed_count() -> None:
    """The path is that of the Service or of the URL; without a failure policy the API server's default counts."""
    url = {"name": "url.cks-admission.dev", "clientConfig": {"url": "https://x.example:9443/base/validate/u"}}
    theirs, open_ = entry("/validate/theirs", domain="example.org"), entry("/validate/open", "Ignore")

    assert closed_paths(configuration(entry(OLD), url, theirs, open_).values()) == [OLD, "/validate/u"]
