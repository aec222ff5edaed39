"""The webhook configurations are kept as the rules want them, whatever the API server or other people do."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from structlog.testing import capture_logs
from support.api.fakeapi import VALIDATING, Json, status
from support.api.times import Times
from support.api.webhookapi import LEASES, NAME, PATHS, POLICIES, ROLES, WebhookApi
from support.patience import until

from certs.material import new_authority
from policies.engine.match import ResourceRule
from policies.engine.rule import Hook, Rule
from policies.kubernetes.release import NEWEST, RELEASES, Release
from policies.topology.topology import BUILT_IN, Catalog
from webhook.cluster.api.client import Connection
from webhook.cluster.replicas.webhooks import Webhooks, unregister
from webhook.configuration import rules
from webhook.configuration.rules import NO_POLICIES, PolicyRules
from webhook.configuration.settings import Settings
from webhook.metrics import Metrics
from webhook.registration.configurations import STATIC, Announcement
from webhook.registration.registrar import REACHED_SECONDS, UNDONE_SECONDS, Registrar, RegistrarInputs

SERVER = WebhookApi
_HOOK = Hook("validate", "policies", (ResourceRule(("CREATE",), ("",), ("pods",)),), "Fail")
_POLICIES = PolicyRules((Rule("p", (_HOOK,), "deny", frozenset()),), (), ("p",))
_OF_POLICIES = ["policies.cks-admission.dev", "system-policies.cks-admission.dev"]
_CATALOG = Catalog(BUILT_IN)
_URL = "https://127.0.0.1:9443"
_MUTATING, _VALIDATING = PATHS
_BOTH = [("PATCH", _MUTATING), ("PATCH", _VALIDATING)]
_POLICY = POLICIES["ValidatingAdmissionPolicy"]
_FIRST, _SECOND = (new_authority(datetime(2026, 3, 1, tzinfo=UTC)).cert_pem for _ in range(2))
_ENCODED = base64.b64encode(_FIRST).decode()
_NOTHING = {"action": "off"}
_ALL_OFF = {
    "labels": _NOTHING,
    "sunk": {**_NOTHING, "daemonSets": "off"},
    "topology": _NOTHING,
    "tolerations": _NOTHING,
    "selectors": _NOTHING,
    "guard": {"namespaces": "off", "taints": "off"},
}


class _Scene:
    """A registrar, the small API server, and what the registrar is told, which the test changes."""

    def __init__(self, server: WebhookApi, api: Connection, times: Times) -> None:
        self.server, self.api, self.times = server, api, times
        self.webhooks = Webhooks(api, NAME, times.clock, policies=True)
        self.metrics = Metrics()
        self.policies: PolicyRules | None = NO_POLICIES
        self.ca_bundle: bytes | None = _FIRST
        self.leads = self.ready = True
        self.release: Release | None = RELEASES[0]
        self.replicas: tuple[Announcement, ...] | None = None
        self.choose()

    def choose(self, sections: Json | None = None, **registration: Any) -> None:
        chosen = {"registration": {"apply": True, "url": _URL, **registration}, **(sections or {})}
        self.settings = Settings.model_validate(chosen)

    async def begin(self, sections: Json | None = None, **registration: Any) -> Registrar:
        """The registrar with these settings, in a process that has been ready for long if it is ready."""
        self.choose(sections, **registration)
        writer = Registrar(self.api, self._inputs, self.webhooks, self.metrics, self.times.clock)
        policies, self.policies = self.policies, None
        await writer.write()
        self.times.pass_by(REACHED_SECONDS)
        self.policies = policies
        return writer

    async def seen(self) -> None:
        """Wait until the watch shows what the server has."""
        await until(
            lambda: (
                {kind: one["metadata"]["resourceVersion"] for kind, one in self.webhooks.state.current.items()}
                == {
                    kind: found["metadata"]["resourceVersion"]
                    for kind, path in (PATHS | POLICIES).items()
                    if (found := self.server.get(path, NAME)) is not None
                }
            )
        )

    async def tamper(self, change: Callable[[Json], object], kind: str = _VALIDATING) -> None:
        """Change a configuration as somebody else does."""
        changed = self.server.configuration(kind)
        change(changed)
        self.server.put(PATHS[kind], changed)
        await self.seen()

    def entries(self, kind: str = _VALIDATING) -> list[str]:
        """The names of the entries in the cluster."""
        found = self.server.get(PATHS[kind], NAME)
        return [] if found is None else [entry["name"] for entry in found["webhooks"]]

    def bundles(self, kind: str = _VALIDATING) -> list[str | None]:
        return [entry["clientConfig"].get("caBundle") for entry in self.server.configuration(kind)["webhooks"]]

    def counted(self) -> dict[str, float]:
        samples = [one for metric in self.metrics.registrations.collect() for one in metric.samples]
        return {one.labels["outcome"]: one.value for one in samples if one.name.endswith("_total")}

    def _inputs(self) -> RegistrarInputs:
        known = (self.settings, _CATALOG, self.policies, (), self.ca_bundle, self.leads, self.ready, self.release)
        return RegistrarInputs(*known, self.replicas)


@pytest.fixture
async def scene(server: WebhookApi, api: Connection, times: Times) -> AsyncIterator[_Scene]:
    """Configurations that are followed, and nothing that is written yet."""
    made = _Scene(server, api, times)
    await made.webhooks.start()
    await until(lambda: not made.webhooks.unsynced())
    yield made
    await made.webhooks.stop()


async def test_entries_follow_the_policies(server: WebhookApi, scene: _Scene) -> None:
    """Policies that come and go take their entry with them; what is as it was is not written again."""
    writer = await scene.begin()
    assert await writer.write()
    without = scene.entries()
    scene.policies = _POLICIES
    # Nothing shows yet of what was written: it must not be taken for somebody else's doing.
    assert [await writer.write(), await writer.write()] == [True, True]
    await scene.seen()
    assert await writer.write()

    assert scene.entries() == [*without, *_OF_POLICIES]
    assert server.writes() == [*_BOTH, ("PATCH", _VALIDATING)]
    assert scene.counted() == {"written": 3}


@pytest.mark.parametrize("unknown", ["policies", "ca_bundle"])
async def test_nothing_is_written_before_all_is_known(
    server: WebhookApi, api: Connection, times: Times, unknown: str
) -> None:
    """A replica that does not know which policies or CAs there are leaves the entries of the others alone."""
    scene = _Scene(server, api, times)
    writer = await scene.begin()
    setattr(scene, unknown, None)

    assert not await writer.write()
    assert server.seen == []


async def test_a_configuration_that_nothing_needs_is_removed(server: WebhookApi, scene: _Scene) -> None:
    """Where every rule of a phase is off, the configuration goes: it would go on asking for nothing."""
    writer = await scene.begin()
    await writer.write()
    scene.policies = _POLICIES
    scene.choose(_ALL_OFF)
    for _ in range(2):
        await scene.seen()
        await writer.write()

    assert (scene.entries(_MUTATING), scene.entries()) == ([], _OF_POLICIES)
    assert server.writes()[2:] == [("DELETE", _MUTATING), ("PATCH", _VALIDATING)]


_DENIED = "ValidatingAdmissionPolicy '{0}' with binding '{0}' denied request: no"


async def test_the_guard_moves_without_a_gap(server: WebhookApi, scene: _Scene) -> None:
    """The entries go once the API server has refused a label by the policy, and it goes once they are there again."""
    guards: list[tuple[bool, bool]] = []

    async def turn(seconds: float = 0) -> None:
        scene.times.pass_by(seconds)
        await writer.write()
        await scene.seen()
        guards.append(("labels.cks-admission.dev" in scene.entries(), server.get(_POLICY, NAME) is not None))

    writer = await scene.begin({"labels": {"enforcedBy": "auto"}})
    await turn()
    scene.release = NEWEST
    await turn()
    await turn(REACHED_SECONDS)
    server.fail(LEASES, 403, status(403, _DENIED.format(NAME)), times=2)
    await turn()
    problems = writer.problems()
    await turn(REACHED_SECONDS)
    scene.release = RELEASES[0]
    await turn()
    await turn()
    await turn(REACHED_SECONDS)
    assert writer.problems() == []
    scene.choose({"labels": {"enforcedBy": "static"}})
    await turn()
    without_files = writer.problems()[0]
    server.fail(LEASES, 403, status(403, _DENIED.format(f"{NAME}{STATIC}")), times=2)
    await turn()
    await turn(REACHED_SECONDS)
    scene.choose({"labels": {"enforcedBy": "policy"}})
    await turn()

    both, entry, native, neither = (True, True), (True, False), (False, True), (False, False)
    assert guards == [entry, both, both, both, native, both, both, entry, both, both, neither, native]
    assert without_files == "no policy in files of the API server refuses reserved labels; the service writes its own"
    assert problems == ["the policy takes over reserved labels; until the API server uses it, both refuse them"]
    assert writer.problems() == []


@pytest.mark.parametrize("change", [{"failurePolicy": "Ignore"}, {"paramKind": {"kind": "X"}}, None])
async def test_the_policy_is_put_back(server: WebhookApi, scene: _Scene, change: Json | None) -> None:
    """A policy that somebody edits or deletes is as it was with the next turn."""
    writer = await scene.begin({"labels": {"enforcedBy": "policy"}})
    await writer.write()
    await scene.seen()
    before = server.get(_POLICY, NAME)
    assert before is not None
    if change is None:
        server.delete(_POLICY, NAME)
    else:
        server.put(_POLICY, {**before, "spec": {**before["spec"], **change}})
    await scene.seen()
    await writer.write()

    after = server.get(_POLICY, NAME)
    assert (after and after["spec"], "labels.cks-admission.dev" in scene.entries()) == (before["spec"], False)


async def test_what_failed_is_written_again_and_said_once(server: WebhookApi, scene: _Scene) -> None:
    """A failure is a problem until it is over; it is logged once, however often it is met."""
    server.fail(f"{VALIDATING}/{NAME}", 500, status(500, "lost"), times=2)
    writer = await scene.begin()
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
    assert (writer.problems(), scene.counted()) == ([], {"failed": 2, "written": 2})


def _ignore(configuration: Json) -> None:
    configuration["webhooks"][0]["failurePolicy"] = "Ignore"


def _never(configuration: Json) -> None:
    configuration["webhooks"][0].setdefault("matchConditions", []).append({"name": "never", "expression": "false"})


def _sorted(configuration: Json) -> list[Json]:
    return sorted(configuration["webhooks"], key=lambda entry: str(entry["name"]))


@pytest.mark.parametrize("code", [409, 422, 500])
@pytest.mark.parametrize("method", ["GET", "PATCH", "PUT"])
@pytest.mark.parametrize("kind", PATHS)
async def test_a_request_that_fails_is_made_up_for(
    server: WebhookApi, scene: _Scene, kind: str, method: str, code: int
) -> None:
    """Whichever request of a repair fails, and however, the next turn ends it, and then there is nothing to do."""
    writer = await scene.begin()
    await writer.write()
    good = {kind: _sorted(server.configuration(kind)) for kind in PATHS}
    for each in PATHS:
        await scene.tamper(_never, each)
    server.fail(f"{PATHS[kind]}/{NAME}", code, status(code, "no"), method=method)
    # What the API server refuses as invalid is replaced at once.
    expected = (code, method) == (422, "PATCH")
    assert await writer.write() is expected
    assert bool(writer.problems()) is (code != 409 and not expected)
    await scene.seen()
    assert await writer.write()
    await scene.seen()
    writes = len(server.writes())
    assert await writer.write()

    assert {kind: _sorted(server.configuration(kind)) for kind in PATHS} == good
    assert (writer.problems(), len(server.writes())) == ([], writes)


async def test_what_replicas_do_not_know_is_withheld(scene: _Scene) -> None:
    """An entry that fails closed comes once all replicas answer its path; until then a problem names them."""
    writer = await scene.begin()
    scene.policies = _POLICIES
    scene.replicas = (Announcement("old", ready=True, paths=frozenset({"/validate/labels", "/mutate/tolerations"})),)
    await writer.write()
    early, problems = scene.entries(), writer.problems()
    await scene.seen()
    scene.replicas = None
    await writer.write()

    assert not {*_OF_POLICIES} & {*early}
    assert any(
        problem.startswith("policies.cks-admission.dev fails closed at /validate/policies")
        and problem.endswith(": old")
        for problem in problems[0].split("; ")
    )
    assert ({*_OF_POLICIES} <= {*scene.entries()}, writer.problems()) == (True, [])


async def test_only_the_leader_writes(server: WebhookApi, scene: _Scene) -> None:
    """Other replicas look on, and say whether all is as it should be; once they lead they write."""
    scene.leads = False
    writer = await scene.begin()
    assert (await writer.write(), server.writes()) == (False, [])
    scene.leads = True
    assert await writer.write()
    scene.leads = False
    await scene.seen()
    assert await writer.write()

    assert server.writes() == _BOTH


def _elsewhere(configuration: Json) -> None:
    client = configuration["webhooks"][0]["clientConfig"]
    client["service"] = {"name": "evil", "namespace": "default"}
    del client["url"]


def _spoiled(configuration: Json) -> None:
    _never(configuration)
    configuration["webhooks"].append({**configuration["webhooks"][0], "name": "more.cks-admission.dev"})
    configuration["metadata"]["labels"] = {}


@pytest.mark.parametrize(
    ("tamper", "differences"),
    [
        (
            _spoiled,
            [
                "label app.kubernetes.io/name",
                "labels.cks-admission.dev: matchConditions never",
                "more.cks-admission.dev: not wanted",
            ],
        ),
        (_elsewhere, ["labels.cks-admission.dev: clientConfig service, url"]),
    ],
)
async def test_what_somebody_changes_is_repaired(
    server: WebhookApi, scene: _Scene, tamper: Callable[[Json], None], differences: list[str]
) -> None:
    """It is put right, by a replacement where need be, and the log says what it was and whose doing."""
    fields = [("cks-admission", "2026-03-01T23:00:00Z"), ("kubectl-edit", "2026-03-01T23:30:00Z")]

    def change(configuration: Json) -> None:
        tamper(configuration)
        configuration["metadata"]["managedFields"] = [{"manager": name, "time": at} for name, at in fields]

    writer = await scene.begin()
    await writer.write()
    good = server.configuration(_VALIDATING)
    await scene.tamper(change)
    with capture_logs() as lines:
        assert await writer.write()
    await scene.seen()
    assert await writer.write()

    told = {
        "configuration": f"{_VALIDATING}/{NAME}",
        "differences": differences,
        "by": fields[1][0],
        "at": fields[1][1],
    }
    assert _sorted(server.configuration(_VALIDATING)) == _sorted(good)
    assert [line for line in lines if line["log_level"] == "warning"] == [
        {"event": "registration repaired", "log_level": "warning", **told}
    ]
    assert scene.counted() == {"written": 2, "repaired": 1}


async def test_entries_of_others_stay_and_are_told_of_once(server: WebhookApi, scene: _Scene) -> None:
    """What somebody writes beside the service's entries is nothing to repair, and stays when these are written."""
    theirs = {"name": "theirs.example.org", "clientConfig": {"url": _URL}}
    writer = await scene.begin()
    await writer.write()
    await scene.tamper(lambda configuration: configuration["webhooks"].append(theirs))
    await writer.write()
    with capture_logs() as lines:
        for bundle in (_FIRST + _SECOND, _SECOND):
            scene.ca_bundle = bundle
            await writer.write()
            await scene.seen()

    assert server.configuration(_VALIDATING)["webhooks"][-1] == theirs
    assert [line["entries"] for line in lines if line["log_level"] == "warning"] == [["theirs.example.org"]]
    assert scene.counted() == {"written": 6}


async def test_unregistered_is_left_alone(server: WebhookApi, scene: _Scene) -> None:
    """What was announced to go for good is not put back, and watched again once it is there without that."""
    writer = await scene.begin()
    await writer.write()
    await scene.seen()
    before = server.configuration(_VALIDATING)
    with capture_logs() as lines:
        removed = await unregister(scene.api, dict.fromkeys(PATHS, NAME))
        await until(lambda: not scene.webhooks.state.current)
        assert [await writer.write(), await writer.write()] == [True, True]
    written, problems = server.writes(), writer.problems()
    assert await unregister(scene.api, dict.fromkeys(PATHS, NAME)) == []
    asked = len(server.writes())
    for kind, path in PATHS.items():
        server.put(path, {**before, "metadata": {**before["metadata"]}, "kind": kind, "webhooks": []})
    await scene.seen()
    assert await writer.write()

    assert removed == [f"{kind}/{NAME}" for kind in PATHS]
    assert written == [*_BOTH, *_BOTH, ("DELETE", _MUTATING), ("DELETE", _VALIDATING)]
    suspended = "nothing is written until the next start, or until they are there without it"
    assert problems == [f"cks-admission.dev/unregister was set on a webhook configuration; {suspended}"]
    assert [line["event"] for line in lines] == ["registration is suspended"]
    assert (writer.problems(), len(server.writes())) == ([], asked + 2)


async def test_one_that_ends_while_it_is_written_is_not_made_again(server: WebhookApi, scene: _Scene) -> None:
    """Between the look at a configuration and the write it may be unregistered: the write finds it gone."""
    writer = await scene.begin()
    await writer.write()
    await scene.tamper(_ignore)
    looking, storing = asyncio.Event(), asyncio.Event()
    asked, server.held = len(server.seen), looking
    writing = asyncio.create_task(writer.write())
    await until(lambda: len(server.seen) > asked)
    server.held = storing
    looking.set()
    await until(lambda: len(server.writes()) == 3)
    server.delete(VALIDATING, NAME)
    storing.set()

    assert (await writing, server.get(VALIDATING, NAME)) == (False, None)
    assert server.writes()[2:] == [("PATCH", _VALIDATING)]


async def test_somebody_who_undoes_it_is_named_and_waited_for(server: WebhookApi, scene: _Scene) -> None:
    """One repair after the other is done with pauses, and one error says who undoes them; it ends with the fight."""
    writer = await scene.begin()
    with capture_logs() as lines:
        running = asyncio.create_task(writer.run(3600))
        for number in range(1, 10):
            await until(lambda: server.get(VALIDATING, NAME))
            changed = server.configuration(_VALIDATING)
            _ignore(changed)
            changed["metadata"]["managedFields"] = [{"manager": "gitops", "time": f"2026-03-01T23:3{number}:00Z"}]
            server.put(VALIDATING, changed)
            await until(lambda number=number: scene.counted().get("repaired") == number)  # type: ignore[misc]
        during = writer.problems()
        scene.times.pass_by(61)
        writer.look()
        await until(lambda: not writer.problems())
        running.cancel()

    (error,) = [line for line in lines if line["log_level"] == "error"]
    reason = (
        "gitops undoes the webhook configurations again and again; end that, or where a cloud adds requirements to "
        "every namespaceSelector, name them in registration.kept"
    )
    assert (during, error["event"], error["reason"]) == ([reason], "registration is undone", reason)
    assert scene.times.pauses[:3] == [UNDONE_SECONDS] * 3


async def test_only_the_bundle_is_written(server: WebhookApi, scene: _Scene) -> None:
    """With caOnly entries get the service's CA once somebody has applied them; what is not there is not made."""
    rendered = [{"name": "labels.cks-admission.dev", "clientConfig": {"url": _URL}, "failurePolicy": "Ignore"}]
    writer = await scene.begin(apply=False, caOnly=True)
    problems = []
    for kind, path in PATHS.items():
        assert await writer.write()
        problems.append(writer.problems())
        server.put(path, {"kind": kind, "metadata": {"name": NAME}, "webhooks": rendered})
        await scene.seen()
    assert await writer.write()

    absent = "there is no {} to write the caBundle into; apply it"
    names = [f"{kind} {NAME}" for kind in PATHS]
    assert problems == [[absent.format(" and ".join(names))], [absent.format(names[1])]]
    for kind in PATHS:
        (entry,) = server.configuration(kind)["webhooks"]
        assert entry == {**rendered[0], "clientConfig": {"url": _URL, "caBundle": _ENCODED}}
    assert (writer.problems(), scene.counted()) == ([], {"written": 2})


async def test_a_bundle_that_is_injected_has_a_beginning(scene: _Scene, tmp_path: Path) -> None:
    """With a caFile entries begin with the CA in it, for until cert-manager comes all writes would be refused."""
    file = tmp_path / "ca.crt"
    file.write_bytes(_FIRST)
    await (await scene.begin(injectCaFrom="cks/serving", caFile=str(file))).write()

    assert {*scene.bundles(_MUTATING), *scene.bundles()} == {_ENCODED}


async def test_a_cluster_role_owns_them(server: WebhookApi, scene: _Scene) -> None:
    """They go with the release: the reference follows the role's uid, and once it is gone they are not put back."""
    writer = await scene.begin(owner="cks")
    assert await writer.write()
    missing = writer.problems()
    owners = []
    for uid in ("one", "two"):
        server.put(ROLES, {"metadata": {"name": "cks", "uid": uid}})
        if uid == "two":  # as the garbage collector does once the first role is gone
            server.delete(VALIDATING, NAME)
        await scene.seen()
        assert await writer.write()
        owners += server.configuration(_VALIDATING)["metadata"]["ownerReferences"]
    assert writer.problems() == []
    await scene.seen()
    server.delete(ROLES, "cks")
    server.delete(VALIDATING, NAME)
    await scene.seen()
    assert await writer.write()

    without = "registration.owner: there is no ClusterRole cks; without it nothing removes the webhook configurations"
    assert missing == [f"{without} in the end"]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "cks"}
    assert owners == [{**role, "uid": uid, "controller": False, "blockOwnerDeletion": False} for uid in ("one", "two")]
    assert server.get(VALIDATING, NAME) is None
    assert writer.problems() == [
        "registration.owner: ClusterRole cks is gone, and the webhook configurations go with it; they are not put back"
    ]


async def test_nothing_is_made_before_calls_arrive(server: WebhookApi, scene: _Scene) -> None:
    """The first configurations wait until somebody is there to answer; one that was there is put back at once."""
    scene.ready = False
    writer = await scene.begin()
    early = await writer.write(), server.writes()
    scene.ready = True
    await writer.write()
    scene.times.pass_by(REACHED_SECONDS)
    made = await writer.write(), server.writes()
    await scene.seen()
    scene.ready = False
    server.delete(PATHS[_MUTATING], NAME)
    await scene.seen()
    put_back = await writer.write(), server.writes()[2:]

    assert (early, made, put_back) == ((False, []), (True, _BOTH), (True, [("PATCH", _MUTATING)]))


async def test_what_waits_is_made_soon(server: WebhookApi, scene: _Scene) -> None:
    """Once calls arrive nobody has to wait for the next look that is due anyway; until then nobody is asked."""
    scene.ready = False
    writer = await scene.begin()
    running = asyncio.create_task(writer.run(3600))
    await until(writer.problems)
    during, asked = writer.problems(), len(server.seen)
    await asyncio.sleep(1.5)
    assert len(server.seen) == asked
    scene.ready = True

    def made() -> bool:
        scene.times.pass_by(REACHED_SECONDS / 2)
        return len(server.writes()) == 2

    await until(made)
    await until(lambda: not writer.problems())
    running.cancel()

    kinds = f"{_MUTATING} {NAME} and {_VALIDATING} {NAME}"
    assert during == [f"{kinds}: to be made once a replica has been ready for 10 s"]


async def test_the_ca_file_is_read_each_time(scene: _Scene, tmp_path: Path) -> None:
    """Files are renewed: a new CA is written, a broken one is not; before there was a good one nothing is written."""
    file = tmp_path / "ca.crt"
    bundles, problems = [], []
    writer = await scene.begin(caFile=str(file))
    assert not await writer.write()
    problems.append(writer.problems())
    for content in (_FIRST, _SECOND, b"broken"):
        file.write_bytes(content)
        assert await writer.write()
        bundles.append(scene.bundles()[0])
        problems.append(writer.problems())

    second = base64.b64encode(_SECOND).decode()
    assert bundles == [_ENCODED, second, second]
    assert problems[:3] == [[f"registration.caFile: {file}: No such file or directory"], [], []]
    assert problems[3][0].startswith(f"registration.caFile: {file}: ")
    assert problems[3][0].endswith("; what was in it before stays in force")


async def test_rules_are_made_once(scene: _Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look every few seconds makes nothing of a thousand policies while all is as it was."""
    build = Mock(wraps=rules.build)
    monkeypatch.setattr(rules, "build", build)
    scene.policies = _POLICIES
    writer = await scene.begin()
    made = []
    for timeout in (5, 5, 7):
        scene.choose(timeoutSeconds=timeout)
        await writer.write()
        made.append(build.call_count)

    assert made == [1, 1, 2]


async def test_without_a_watch_they_are_read(server: WebhookApi, api: Connection, times: Times) -> None:
    """Where nothing is followed, or not yet, each write looks for itself, and repairs all the same."""
    scene = _Scene(server, api, times)
    writer = await scene.begin()
    await writer.write()
    changed = server.configuration(_VALIDATING)
    _ignore(changed)
    server.put(VALIDATING, changed)
    assert [await writer.write(), await writer.write()] == [True, True]

    assert server.configuration(_VALIDATING)["webhooks"][0]["failurePolicy"] == "Fail"
    assert scene.counted() == {"written": 2, "repaired": 1}
