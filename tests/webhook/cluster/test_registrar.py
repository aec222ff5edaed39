"""The webhook configurations are kept as the rules want them, whatever the API server or other people do."""

from __future__ import annotations

import asyncio
import base64
import copy
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs
from support.api.fakeapi import MUTATING, VALIDATING, Json, status
from support.api.times import Times
from support.api.webhookapi import LEASES, NAME, PATHS, POLICIES, ROLES, WebhookApi
from support.patience import until

from certs.authority import new_authority
from policies.engine.match import ResourceRule
from policies.engine.rule import Hook, Rule
from policies.kubernetes.release import NEWEST, RELEASES, Release
from policies.topology.topology import BUILT_IN, Catalog
from webhook.cluster.api.client import Connection
from webhook.cluster.replicas.webhooks import Webhooks, unregister
from webhook.configuration.rules import NO_POLICIES, PolicyRules
from webhook.configuration.settings import Settings
from webhook.metrics import Metrics
from webhook.registration.announcement import Announcement
from webhook.registration.configurations import STATIC
from webhook.registration.registrar import REACHED_SECONDS, UNDONE_SECONDS, Registrar, RegistrarInputs

_HOOK = Hook("validate", "policies", (ResourceRule(("CREATE",), ("",), ("pods",)),), "Fail")
_POLICIES = PolicyRules((Rule("p", (_HOOK,), "deny", frozenset()),), (), ("p",))
_CATALOG = Catalog(BUILT_IN)
_URL = "https://127.0.0.1:9443"
_MUTATING, _VALIDATING = PATHS
POLICY = POLICIES["ValidatingAdmissionPolicy"]
_FIRST, _SECOND = (new_authority(datetime(2026, 3, 1, tzinfo=UTC)).cert_pem for _ in range(2))
_NOTHING = {"action": "off"}
_ALL_OFF = {
    "labels": _NOTHING,
    "sunk": {**_NOTHING, "daemonSets": "off"},
    "topology": _NOTHING,
    "tolerations": _NOTHING,
    "selectors": _NOTHING,
    "guard": {"namespaces": "off", "taints": "off"},
}


@dataclass
class Known:
    """What a registrar is told, which the test changes; it is told of nothing else."""

    settings: Settings
    policies: PolicyRules | None = NO_POLICIES
    ca_bundle: bytes | None = _FIRST
    leads: bool = True
    ready: bool = True
    release: Release | None = RELEASES[0]
    replicas: tuple[Announcement, ...] | None = None
    metrics: Metrics = field(default_factory=Metrics)

    def inputs(self) -> RegistrarInputs:
        """What is known now."""
        return RegistrarInputs(
            self.settings,
            _CATALOG,
            self.policies,
            (),
            self.ca_bundle,
            self.leads,
            self.ready,
            self.release,
            self.replicas,
        )

    def counted(self) -> dict[str, float]:
        """How many configurations were written, by outcome."""
        samples = [each for metric in self.metrics.registrations.collect() for each in metric.samples]
        return {each.labels["outcome"]: each.value for each in samples if each.name.endswith("_total")}


def settings(**more: Any) -> Settings:
    """Settings of a registration."""
    other = {key: more.pop(key) for key in list(more) if key in _ALL_OFF}
    return Settings.model_validate({"registration": {"apply": True, "url": _URL, **more}, **other})


@pytest.fixture
async def server() -> AsyncIterator[WebhookApi]:
    """The small API server, with webhook configurations."""
    async with WebhookApi() as running:
        yield running


@pytest.fixture
def known() -> Known:
    """What the registrar is told."""
    return Known(settings())


@asynccontextmanager
async def followed(api: Connection, times: Times) -> AsyncIterator[Webhooks]:
    """The configurations, followed."""
    webhooks = Webhooks(api, NAME, times.clock, policies=True)
    await webhooks.start()
    try:
        await until(lambda: not webhooks.unsynced())
        yield webhooks
    finally:
        await webhooks.stop()


async def registrar(
    api: Connection,
    known: Known,
    webhooks: Webhooks,
    times: Times,
    chosen: Settings | None = None,
    sleep: Callable[[float], Awaitable[object]] | None = None,
) -> Registrar:
    """A registrar of what is known, in a process that has been ready for long if it is ready."""
    known.settings = chosen or known.settings
    clock = times.clock if sleep is None else replace(times.clock, sleep=sleep)
    made = Registrar(api, known.inputs, webhooks, known.metrics, clock)
    policies, known.policies = known.policies, None
    await made.write()
    times.pass_by(REACHED_SECONDS)
    known.policies = policies
    return made


async def seen(server: WebhookApi, webhooks: Webhooks) -> None:
    """Wait until the watch shows what the server has."""
    await until(
        lambda: (
            {kind: each["metadata"]["resourceVersion"] for kind, each in webhooks.state.current.items()}
            == {
                kind: found["metadata"]["resourceVersion"]
                for kind, path in (PATHS | POLICIES).items()
                if (found := server.get(path, NAME)) is not None
            }
        )
    )


def entries(server: WebhookApi, kind: str = _VALIDATING) -> list[str]:
    """The names of the entries in the cluster."""
    found = server.get(PATHS[kind], NAME)
    return [] if found is None else [entry["name"] for entry in found["webhooks"]]


async def test_entries_follow_the_policies(server: WebhookApi, api: Connection, times: Times, known: Known) -> None:
    """Policies that come and go take their entry with them; what is as it was is not written again."""
    async with followed(api, times) as webhooks:
        writer = await registrar(api, known, webhooks, times)
        assert await writer.write()
        without = entries(server)
        known.policies = _POLICIES
        # Nothing shows yet of what was written: it must not be taken for somebody else's doing.
        assert [await writer.write(), await writer.write()] == [True, True]
        await seen(server, webhooks)
        assert await writer.write()

    assert entries(server) == [*without, "policies.cks-admission.dev", "system-policies.cks-admission.dev"]
    assert server.writes() == [("PATCH", _MUTATING), ("PATCH", _VALIDATING), ("PATCH", _VALIDATING)]
    assert known.counted() == {"written": 3}


@pytest.mark.parametrize("unknown", ["policies", "ca_bundle"])
async def test_nothing_is_written_before_all_is_known(
    server: WebhookApi, api: Connection, times: Times, known: Known, unknown: str
) -> None:
    """A replica that does not know which policies or CAs there are leaves the entries of the others alone."""
    writer = await registrar(api, known, Webhooks(api, NAME, times.clock), times)
    setattr(known, unknown, None)

    assert not await writer.write()
    assert server.seen == []


async def test_a_configuration_that_nothing_needs_is_removed(
    server: WebhookApi, api: Connection, times: Times, known: Known
) -> None:
    """Where every rule of a phase is off, the configuration goes: it would go on asking for nothing."""
    async with followed(api, times) as webhooks:
        writer = await registrar(api, known, webhooks, times)
        await writer.write()
        known.policies = _POLICIES
        known.settings = settings(**_ALL_OFF)
        await seen(server, webhooks)
        await writer.write()
        await seen(server, webhooks)
        await writer.write()

    assert (entries(server, _MUTATING), entries(server)) == (
        [],
        ["policies.cks-admission.dev", "system-policies.cks-admission.dev"],
    )
    assert server.writes()[2:] == [("DELETE", _MUTATING), ("PATCH", _VALIDATING)]


_DENIED = "ValidatingAdmissionPolicy '{0}' with binding '{0}' denied request: no"


async def test_the_guard_moves_without_a_gap(server: WebhookApi, api: Connection, times: Times, known: Known) -> None:
    """The entries go once the API server has refused a label by the policy, and it goes once they are there again."""
    guards: list[tuple[bool, bool]] = []

    async def turn(writer: Registrar, webhooks: Webhooks, seconds: float = 0) -> None:
        times.pass_by(seconds)
        await writer.write()
        await seen(server, webhooks)
        guards.append(("labels.cks-admission.dev" in entries(server), server.get(POLICY, NAME) is not None))

    async with followed(api, times) as webhooks:
        writer = await registrar(api, known, webhooks, times, settings(labels={"enforcedBy": "auto"}))
        await turn(writer, webhooks)
        known.release = NEWEST
        await turn(writer, webhooks)
        await turn(writer, webhooks, REACHED_SECONDS)
        server.fail(LEASES, 403, status(403, _DENIED.format(NAME)), times=2)
        await turn(writer, webhooks)
        problems = writer.problems()
        await turn(writer, webhooks, REACHED_SECONDS)
        known.release = RELEASES[0]
        await turn(writer, webhooks)
        await turn(writer, webhooks)
        await turn(writer, webhooks, REACHED_SECONDS)
        assert writer.problems() == []
        known.settings = settings(labels={"enforcedBy": "static"})
        await turn(writer, webhooks)
        without_files = writer.problems()[0]
        server.fail(LEASES, 403, status(403, _DENIED.format(f"{NAME}{STATIC}")), times=2)
        await turn(writer, webhooks)
        await turn(writer, webhooks, REACHED_SECONDS)
        known.settings = settings(labels={"enforcedBy": "policy"})
        await turn(writer, webhooks)

    both, entry, native, neither = (True, True), (True, False), (False, True), (False, False)
    assert guards == [entry, both, both, both, native, both, both, entry, both, both, neither, native]
    assert without_files == "no policy in files of the API server refuses reserved labels; the service writes its own"
    assert problems == ["the policy takes over reserved labels; until the API server uses it, both refuse them"]
    assert writer.problems() == []


@pytest.mark.parametrize("change", [{"failurePolicy": "Ignore"}, {"paramKind": {"kind": "X"}}, None])
async def test_the_policy_is_put_back(
    server: WebhookApi, api: Connection, times: Times, known: Known, change: Json | None
) -> None:
    """A policy that somebody edits or deletes is as it was with the next turn."""
    async with followed(api, times) as webhooks:
        writer = await registrar(api, known, webhooks, times, settings(labels={"enforcedBy": "policy"}))
        await writer.write()
        await seen(server, webhooks)
        before = server.get(POLICY, NAME)
        assert before is not None
        if change is None:
            server.delete(POLICY, NAME)
        else:
            server.put(POLICY, {**before, "spec": {**before["spec"], **change}})
        await until(lambda: webhooks.state.current.get("ValidatingAdmissionPolicy", {}).get("spec") != before["spec"])
        await writer.write()

    after = server.get(POLICY, NAME)
    assert (after and after["spec"], "labels.cks-admission.dev" in entries(server)) == (before["spec"], False)


async def test_what_failed_is_written_again_and_said_once(
    server: WebhookApi, api: Connection, times: Times, known: Known
) -> None:
    """A failure is a problem until it is over; it is logged once, however often it is met."""
    server.fail(f"{VALIDATING}/{NAME}", 500, status(500, "lost"), times=2)
    async with followed(api, times) as webhooks:
        writer = await registrar(api, known, webhooks, times)
        with capture_logs() as lines:
            assert [await writer.write(), await writer.write()] == [False, False]
            problems = writer.problems()
            assert await writer.write()

    reason = (
        f"ValidatingWebhookConfiguration {NAME} could not be read: the API server refused GET {VALIDATING}/{NAME} at "
        f"{server.url} (500: lost)"
    )
    assert problems == [reason]
    assert [line for line in lines if line["event"] == "not registered"] == [
        {"event": "not registered", "reason": reason, "log_level": "error"}
    ]
    assert (writer.problems(), known.counted()) == ([], {"failed": 2, "written": 2})


@pytest.mark.parametrize("code", [409, 422, 500])
@pytest.mark.parametrize("method", ["GET", "PATCH", "PUT"])
@pytest.mark.parametrize("kind", PATHS)
async def test_a_request_that_fails_is_made_up_for(
    server: WebhookApi, api: Connection, times: Times, known: Known, kind: str, method: str, code: int
) -> None:
    """Whichever request of a repair fails, and however, the next turn ends it, and then there is nothing to do."""
    async with followed(api, times) as webhooks:
        writer = await registrar(api, known, webhooks, times)
        await writer.write()
        good = {kind: server.configuration(kind) for kind in PATHS}
        for name, path in PATHS.items():
            changed = copy.deepcopy(good[name])
            _never(changed)
            server.put(path, changed)
        await seen(server, webhooks)
        server.fail(f"{PATHS[kind]}/{NAME}", code, status(code, "no"), method=method)
        # What the API server refuses as invalid is replaced at once.
        expected = (code, method) == (422, "PATCH")
        assert await writer.write() is expected
        assert bool(writer.problems()) is (code != 409 and not expected)
        await seen(server, webhooks)
        assert await writer.write()
        await seen(server, webhooks)
        writes = len(server.writes())
        assert await writer.write()

    assert {kind: _sorted(server.configuration(kind)) for kind in PATHS} == {k: _sorted(c) for k, c in good.items()}
    assert (writer.problems(), len(server.writes())) == ([], writes)


async def test_what_replicas_do_not_know_is_withheld(
    server: WebhookApi, api: Connection, times: Times, known: Known
) -> None:
    """An entry that fails closed comes once all replicas answer its path; until then a problem names them."""
    async with followed(api, times) as webhooks:
        writer = await registrar(api, known, webhooks, times)
        known.policies = _POLICIES
        known.replicas = (
            Announcement("old", ready=True, paths=frozenset({"/validate/labels", "/mutate/tolerations"})),
        )
        await writer.write()
        early, problems = entries(server), writer.problems()
        await seen(server, webhooks)
        known.replicas = None
        await writer.write()

    assert "policies.cks-admission.dev" not in early
    assert any(
        problem.startswith("policies.cks-admission.dev fails closed at /validate/policies")
        and problem.endswith(": old")
        for problem in problems[0].split("; ")
    )
    assert ("policies.cks-admission.dev" in entries(server), writer.problems()) == (True, [])


async def test_only_the_leader_writes(server: WebhookApi, api: Connection, times: Times, known: Known) -> None:
    """Other replicas look on, and say whether all is as it should be; once they lead they write."""
    known.leads = False
    async with followed(api, times) as webhooks:
        writer = await registrar(api, known, webhooks, times)
        before = await writer.write()
        assert (before, server.writes()) == (False, [])
        known.leads = True
        assert await writer.write()
        known.leads = False
        await seen(server, webhooks)
        assert await writer.write()

    assert server.writes() == [("PATCH", _MUTATING), ("PATCH", _VALIDATING)]


def _entry(configuration: Json) -> Json:
    found: Json = configuration["webhooks"][0]
    return found


def _ignore(configuration: Json) -> None:
    _entry(configuration)["failurePolicy"] = "Ignore"


def _never(configuration: Json) -> None:
    _entry(configuration).setdefault("matchConditions", []).append({"name": "never", "expression": "false"})


def _elsewhere(configuration: Json) -> None:
    client = _entry(configuration)["clientConfig"]
    client["service"] = {"name": "evil", "namespace": "default"}
    del client["url"]


def _field(**values: Any) -> Callable[[Json], None]:
    return lambda configuration: _entry(configuration).update(values)


def _other_ca(configuration: Json) -> None:
    _entry(configuration)["clientConfig"]["caBundle"] = "AAAA"


def _without_entry(configuration: Json) -> None:
    del configuration["webhooks"][0]


def _more(configuration: Json) -> None:
    configuration["webhooks"].append({**_entry(configuration), "name": "more.cks-admission.dev"})


def _unlabelled(configuration: Json) -> None:
    configuration["metadata"]["labels"] = {}


_TAMPERING = [
    pytest.param(_ignore, ["labels.cks-admission.dev: failurePolicy is Ignore, not Fail"], id="failure-policy"),
    pytest.param(
        _field(objectSelector={"matchLabels": {"judge": "me"}}),
        ["labels.cks-admission.dev: objectSelector"],
        id="object-selector",
    ),
    pytest.param(
        _field(namespaceSelector={"matchLabels": {"judge": "me"}}),
        ["labels.cks-admission.dev: namespaceSelector"],
        id="namespace-selector",
    ),
    pytest.param(_field(rules=[]), ["labels.cks-admission.dev: rules"], id="rules"),
    pytest.param(_other_ca, ["labels.cks-admission.dev: clientConfig caBundle"], id="other-ca"),
    pytest.param(_without_entry, ["labels.cks-admission.dev: missing"], id="entry-taken-away"),
    pytest.param(_more, ["more.cks-admission.dev: not wanted"], id="entry-added"),
    pytest.param(_unlabelled, ["label app.kubernetes.io/name"], id="label-taken-away"),
    pytest.param(_never, ["labels.cks-admission.dev: matchConditions never"], id="condition-that-is-never-true"),
    pytest.param(_elsewhere, ["labels.cks-admission.dev: clientConfig service, url"], id="another-service"),
]


@pytest.mark.parametrize(("tamper", "differences"), _TAMPERING)
async def test_what_somebody_changes_is_repaired(
    server: WebhookApi,
    api: Connection,
    times: Times,
    known: Known,
    tamper: Callable[[Json], None],
    differences: list[str],
) -> None:
    """It is put right, by a replacement where need be, and the log says what it was and whose doing."""
    async with followed(api, times) as webhooks:
        writer = await registrar(api, known, webhooks, times)
        await writer.write()
        good = server.configuration(_VALIDATING)
        changed = copy.deepcopy(good)
        tamper(changed)
        changed["metadata"]["managedFields"] = [
            {"manager": "cks-admission", "time": "2026-03-01T23:00:00Z"},
            {"manager": "kubectl-edit", "time": "2026-03-01T23:30:00Z"},
        ]
        server.put(VALIDATING, changed)
        await seen(server, webhooks)
        with capture_logs() as lines:
            assert await writer.write()
        await seen(server, webhooks)
        assert await writer.write()

    assert _sorted(server.configuration(_VALIDATING)) == _sorted(good)
    assert [line for line in lines if line["log_level"] == "warning"] == [
        {
            "event": "registration repaired",
            "log_level": "warning",
            "configuration": f"{_VALIDATING}/{NAME}",
            "differences": differences,
            "by": "kubectl-edit",
            "at": "2026-03-01T23:30:00Z",
        }
    ]
    assert known.counted() == {"written": 2, "repaired": 1}


def _sorted(configuration: Json) -> list[Json]:
    return sorted(configuration["webhooks"], key=lambda entry: str(entry["name"]))


async def test_a_deleted_configuration_is_back_at_once(
    server: WebhookApi, api: Connection, times: Times, known: Known
) -> None:
    """Once it runs it needs no call: what is deleted is written again as soon as that is seen."""
    async with followed(api, times) as webhooks:
        running = asyncio.create_task((await registrar(api, known, webhooks, times)).run(3600))
        await until(lambda: server.get(VALIDATING, NAME))
        await seen(server, webhooks)
        server.delete(VALIDATING, NAME)
        await until(lambda: known.counted().get("repaired"))
        running.cancel()

    assert server.get(VALIDATING, NAME)
    assert server.writes() == [("PATCH", _MUTATING), ("PATCH", _VALIDATING), ("PATCH", _VALIDATING)]


async def test_what_belongs_to_others_stays(server: WebhookApi, api: Connection, times: Times, known: Known) -> None:
    """Labels, annotations, entries and a cloud's requirements stay, through writes too; entries are told of once."""
    server.cloud = [
        {"key": "control-plane", "operator": "NotIn", "values": ["true"]},
        {"key": "kubernetes.azure.com/managedby", "operator": "NotIn", "values": ["aks"]},
    ]
    theirs = {"name": "theirs.example.org", "clientConfig": {"url": _URL}}
    async with followed(api, times) as webhooks:
        kept = [{"key": added["key"], "values": added["values"]} for added in server.cloud]
        writer = await registrar(api, known, webhooks, times, settings(kept=kept))
        await writer.write()
        changed = server.configuration(_VALIDATING)
        changed["metadata"]["labels"]["theirs"] = "x"
        changed["metadata"]["annotations"] = {"theirs": "y"}
        changed["webhooks"].append(theirs)
        server.put(VALIDATING, changed)
        await seen(server, webhooks)
        await writer.write()
        known.ca_bundle = _FIRST + _SECOND
        with capture_logs() as lines:
            await writer.write()
        await seen(server, webhooks)
        await writer.write()

    found = server.configuration(_VALIDATING)
    metadata = found["metadata"]
    assert (metadata["labels"]["theirs"], metadata["annotations"]) == ("x", {"theirs": "y"})
    assert found["webhooks"][-1] == {**theirs, "namespaceSelector": {"matchExpressions": server.cloud}}
    assert all(entry["namespaceSelector"]["matchExpressions"][-2:] == server.cloud for entry in found["webhooks"])
    assert [line["entries"] for line in lines if line["log_level"] == "warning"] == [["theirs.example.org"]]
    assert known.counted() == {"written": 4}


async def test_unregistered_is_left_alone(server: WebhookApi, api: Connection, times: Times, known: Known) -> None:
    """What was announced to go for good is not put back, and watched again once it is there without that."""
    async with followed(api, times) as webhooks:
        writer = await registrar(api, known, webhooks, times)
        await writer.write()
        await seen(server, webhooks)
        before = server.configuration(_VALIDATING)
        with capture_logs() as lines:
            removed = await unregister(api, dict.fromkeys(PATHS, NAME))
            await until(lambda: not webhooks.state.current)
            assert [await writer.write(), await writer.write()] == [True, True]
        written, problems = server.writes(), writer.problems()
        for kind, path in PATHS.items():
            server.put(path, {**copy.deepcopy(before), "kind": kind, "webhooks": []})
        await seen(server, webhooks)
        assert await writer.write()

    assert removed == [f"{_MUTATING}/{NAME}", f"{_VALIDATING}/{NAME}"]
    assert written[2:] == [("PATCH", _MUTATING), ("PATCH", _VALIDATING), ("DELETE", _MUTATING), ("DELETE", _VALIDATING)]
    suspended = "nothing is written until the next start, or until they are there without it"
    assert problems == [f"cks-admission.dev/unregister was set on a webhook configuration; {suspended}"]
    assert [line["event"] for line in lines] == ["registration is suspended"]
    assert (writer.problems(), len(server.writes())) == ([], len(written) + 2)


async def test_one_that_ends_while_it_is_written_is_not_made_again(
    server: WebhookApi, api: Connection, times: Times, known: Known
) -> None:
    """Between the look at a configuration and the write it may be unregistered: the write finds it gone."""
    async with followed(api, times) as webhooks:
        writer = await registrar(api, known, webhooks, times)
        await writer.write()
        await seen(server, webhooks)
        changed = server.configuration(_VALIDATING)
        _ignore(changed)
        server.put(VALIDATING, changed)
        await seen(server, webhooks)
        looking, storing = asyncio.Event(), asyncio.Event()
        asked, server.held = len(server.seen), looking
        writing = asyncio.create_task(writer.write())
        await until(lambda: len(server.seen) > asked)
        server.held = storing
        looking.set()
        await until(lambda: len(server.writes()) == 3)
        server.delete(VALIDATING, NAME)
        storing.set()
        written = await writing

    assert (written, server.get(VALIDATING, NAME)) == (False, None)
    assert server.writes()[2:] == [("PATCH", _VALIDATING)]


async def test_somebody_who_undoes_it_is_named_and_waited_for(
    server: WebhookApi, api: Connection, times: Times, known: Known
) -> None:
    """One repair after the other is done with pauses, and one error says who undoes them; it ends with the fight."""
    async with followed(api, times) as webhooks:
        writer = await registrar(api, known, webhooks, times)
        with capture_logs() as lines:
            running = asyncio.create_task(writer.run(3600))
            for number in range(1, 10):
                await until(lambda: server.get(VALIDATING, NAME))
                changed = server.configuration(_VALIDATING)
                _ignore(changed)
                changed["metadata"]["managedFields"] = [{"manager": "gitops", "time": f"2026-03-01T23:3{number}:00Z"}]
                server.put(VALIDATING, changed)
                await until(lambda number=number: known.counted().get("repaired") == number)  # type: ignore[misc]
            during = writer.problems()
            times.pass_by(61)
            writer.look()
            await until(lambda: not writer.problems())
            running.cancel()

    (error,) = [line for line in lines if line["log_level"] == "error"]
    reason = (
        "gitops undoes the webhook configurations again and again; end that, or where a cloud adds requirements to "
        "every namespaceSelector, name them in registration.kept"
    )
    assert (during, error["event"], error["reason"]) == ([reason], "registration is undone", reason)
    assert times.pauses[:3] == [UNDONE_SECONDS] * 3


def _rendered(kind: str, bundle: str | None = None) -> Json:
    """A configuration that somebody else applied."""
    client = {"url": _URL, **({"caBundle": bundle} if bundle else {})}
    names = ("labels.cks-admission.dev", "theirs.example.org")
    webhooks = [{"name": name, "clientConfig": dict(client), "failurePolicy": "Ignore"} for name in names]
    return {"kind": kind, "metadata": {"name": NAME}, "webhooks": webhooks}


async def test_only_the_bundle_is_written(server: WebhookApi, api: Connection, times: Times, known: Known) -> None:
    """With caOnly the entries that are the service's get its CA; nothing else is touched, and nothing is made."""
    server.put(VALIDATING, _rendered(_VALIDATING))
    async with followed(api, times) as webhooks:
        writer = await registrar(api, known, webhooks, times, settings(apply=False, caOnly=True))
        assert await writer.write()
        problems = writer.problems()
        await seen(server, webhooks)
        server.put(VALIDATING, _rendered(_VALIDATING, "AAAA"))
        await seen(server, webhooks)
        assert await writer.write()
        server.put(MUTATING, _rendered(_MUTATING))
        await seen(server, webhooks)
        assert await writer.write()

    encoded = base64.b64encode(_FIRST).decode()
    for kind, theirs in ((_MUTATING, None), (_VALIDATING, "AAAA")):
        own, other = server.configuration(kind)["webhooks"]
        assert own["clientConfig"] == {"url": _URL, "caBundle": encoded}
        assert (own["failurePolicy"], other["clientConfig"].get("caBundle")) == ("Ignore", theirs)
    assert problems == [f"there is no {_MUTATING} {NAME} to write the caBundle into; apply it"]
    assert (writer.problems(), known.counted()) == ([], {"written": 2, "repaired": 1})


async def test_a_bundle_that_is_injected_is_left_alone(
    server: WebhookApi, api: Connection, times: Times, known: Known
) -> None:
    """With injectCaFrom cert-manager is told where the CA is, and what it writes stays, even through a repair."""
    async with followed(api, times) as webhooks:
        writer = await registrar(api, known, webhooks, times, settings(injectCaFrom="cks-admission/serving"))
        await writer.write()
        bundles = [entry["clientConfig"] for entry in server.configuration(_VALIDATING)["webhooks"]]
        changed = server.configuration(_VALIDATING)
        for entry in changed["webhooks"]:
            entry["clientConfig"]["caBundle"] = "AAAA"
        server.put(VALIDATING, copy.deepcopy(changed))
        await seen(server, webhooks)
        await writer.write()
        assert len(server.writes()) == 2
        _never(changed)
        server.put(VALIDATING, changed)
        await seen(server, webhooks)
        await writer.write()

    found = server.configuration(_VALIDATING)
    assert not any("caBundle" in client for client in bundles)
    assert found["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": "cks-admission/serving"}
    assert {entry["clientConfig"]["caBundle"] for entry in found["webhooks"]} == {"AAAA"}
    assert server.writes()[2:] == [("PATCH", _VALIDATING), ("PUT", _VALIDATING)]


async def test_a_bundle_that_is_injected_has_a_beginning(
    server: WebhookApi, api: Connection, times: Times, known: Known, tmp_path: Path
) -> None:
    """With a caFile entries begin with the CA in it, for until cert-manager comes all writes would be refused."""
    assert known.ca_bundle is not None
    file = tmp_path / "ca.crt"
    file.write_bytes(known.ca_bundle)
    async with followed(api, times) as webhooks:
        writer = await registrar(api, known, webhooks, times, settings(injectCaFrom="cks/serving", caFile=str(file)))
        await writer.write()

    encoded = base64.b64encode(known.ca_bundle).decode()
    found = [
        entry["clientConfig"] for kind in (_MUTATING, _VALIDATING) for entry in server.configuration(kind)["webhooks"]
    ]
    assert {client["caBundle"] for client in found} == {encoded}


async def test_a_cluster_role_owns_them(server: WebhookApi, api: Connection, times: Times, known: Known) -> None:
    """They go with the release: the reference follows the role's uid, and once it is gone they are not put back."""
    async with followed(api, times) as webhooks:
        writer = await registrar(api, known, webhooks, times, settings(owner="cks"))
        assert await writer.write()
        missing = writer.problems()
        owners = []
        for uid in ("one", "two"):
            server.put(ROLES, {"metadata": {"name": "cks", "uid": uid}})
            if uid == "two":  # as the garbage collector does once the first role is gone
                server.delete(VALIDATING, NAME)
            await seen(server, webhooks)
            assert await writer.write()
            owners.append(server.configuration(_VALIDATING)["metadata"]["ownerReferences"])
        assert writer.problems() == []
        await seen(server, webhooks)
        server.delete(ROLES, "cks")
        server.delete(VALIDATING, NAME)
        await until(lambda: _VALIDATING not in webhooks.state.current)
        assert await writer.write()

    without = "registration.owner: there is no ClusterRole cks; without it nothing removes the webhook configurations"
    assert missing == [f"{without} in the end"]
    assert owners == [
        [
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole",
                "name": "cks",
                "uid": uid,
                "controller": False,
                "blockOwnerDeletion": False,
            }
        ]
        for uid in ("one", "two")
    ]
    assert server.get(VALIDATING, NAME) is None
    assert writer.problems() == [
        "registration.owner: ClusterRole cks is gone, and the webhook configurations go with it; they are not put back"
    ]


async def test_nothing_is_made_before_calls_arrive(
    server: WebhookApi, api: Connection, times: Times, known: Known
) -> None:
    """The first configurations wait until somebody is there to answer; one that was there is put back at once."""
    async with followed(api, times) as webhooks:
        known.ready = False
        writer = await registrar(api, known, webhooks, times)
        early = await writer.write(), server.writes()
        known.ready = True
        await writer.write()
        times.pass_by(REACHED_SECONDS)
        made = await writer.write(), server.writes()
        await seen(server, webhooks)
        known.ready = False
        server.delete(MUTATING, NAME)
        await until(lambda: _MUTATING not in webhooks.state.current)
        put_back = await writer.write(), server.writes()[2:]

    assert early == (False, [])
    assert made == (True, [("PATCH", _MUTATING), ("PATCH", _VALIDATING)])
    assert put_back == (True, [("PATCH", _MUTATING)])


async def test_what_waits_is_made_soon(server: WebhookApi, api: Connection, times: Times, known: Known) -> None:
    """Once calls arrive nobody has to wait for the next look that is due anyway; until then nobody is asked."""
    known.ready = False
    async with followed(api, times) as webhooks:
        writer = await registrar(api, known, webhooks, times)
        running = asyncio.create_task(writer.run(3600))
        await until(writer.problems)
        during, asked = writer.problems(), len(server.seen)
        await asyncio.sleep(1.5)
        assert len(server.seen) == asked
        known.ready = True

        def made() -> bool:
            times.pass_by(REACHED_SECONDS / 2)
            return len(server.writes()) == 2

        await until(made)
        await until(lambda: not writer.problems())
        running.cancel()

    kinds = f"{_MUTATING} {NAME} and {_VALIDATING} {NAME}"
    assert during == [f"{kinds}: to be made once a replica has been ready for 10 s"]


async def test_the_ca_file_is_read_each_time(
    server: WebhookApi, api: Connection, times: Times, known: Known, tmp_path: Path
) -> None:
    """Files are renewed: a new CA is written, a broken one is not; before there was a good one nothing is written."""
    file = tmp_path / "ca.crt"
    bundles, problems = [], []
    async with followed(api, times) as webhooks:
        writer = await registrar(api, known, webhooks, times, settings(caFile=str(file)))
        assert not await writer.write()
        problems.append(writer.problems())
        for content in (_FIRST, _SECOND, b"broken"):
            file.write_bytes(content)
            assert await writer.write()
            bundles.append(_entry(server.configuration(_VALIDATING))["clientConfig"]["caBundle"])
            problems.append(writer.problems())

    first, second = (base64.b64encode(each).decode() for each in (_FIRST, _SECOND))
    assert bundles == [first, second, second]
    assert problems[:3] == [[f"registration.caFile: {file}: No such file or directory"], [], []]
    assert problems[3][0].startswith(f"registration.caFile: {file}: ")
    assert problems[3][0].endswith("; what was in it before stays in force")


class _Counted(tuple[Rule, ...]):
    """Rules that count how often something was made of them."""

    __slots__ = ()
    times = 0

    def __iter__(self) -> Iterator[Rule]:
        """Count this one."""
        type(self).times += 1
        return super().__iter__()


async def test_rules_are_made_once(api: Connection, times: Times, known: Known) -> None:
    """A look every few seconds makes nothing of a thousand policies while all is as it was."""
    known.policies = PolicyRules(_Counted(_POLICIES.rules), (), ("p",))
    async with followed(api, times) as webhooks:
        writer = await registrar(api, known, webhooks, times)
        made = []
        for timeout in (5, 5, 7):
            known.settings = settings(timeoutSeconds=timeout)
            await writer.write()
            made.append(_Counted.times)

    assert made == [1, 1, 2]


async def test_without_a_watch_they_are_read(server: WebhookApi, api: Connection, times: Times, known: Known) -> None:
    """Where nothing is followed, or not yet, each write looks for itself, and repairs all the same."""
    writer = await registrar(api, known, Webhooks(api, NAME, times.clock), times)
    await writer.write()
    changed = server.configuration(_VALIDATING)
    _ignore(changed)
    server.put(VALIDATING, changed)
    assert [await writer.write(), await writer.write()] == [True, True]

    assert _entry(changed)["failurePolicy"] == "Ignore"
    assert known.counted() == {"written": 2, "repaired": 1}
