"""The webhook configurations are kept as the rules want them, against an API server that may fail."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from policies.match import ResourceRule
from policies.rule import Hook, Rule
from policies.topology.builtin import BUILT_IN
from policies.topology.catalog import Catalog
from webhook.cluster.client import Connection
from webhook.registrar import Registrar
from webhook.rules import NO_POLICIES, PolicyRules
from webhook.settings import Settings

from .fakeapi import MUTATING, VALIDATING, Failure, FakeApi, status

_HOOK = Hook("validate", "policies", (ResourceRule(("CREATE",), ("",), ("pods",)),), "Fail")
_POLICIES = PolicyRules((Rule("p", (_HOOK,), "deny", frozenset()),), (), ("p",))


class _Known:
    """What is known of policies, which the test changes."""

    def __init__(self, policies: PolicyRules | None) -> None:
        self.policies = policies

    def __call__(self) -> PolicyRules | None:
        return self.policies


def _registrar(api: Connection, known: _Known) -> Registrar:
    settings = Settings.model_validate({"registration": {"apply": True, "url": "https://127.0.0.1:9443"}})
    certificates: Any = SimpleNamespace(ca_bundle=b"")
    facts: Any = SimpleNamespace(api=api, control_plane_namespaces=tuple)
    return Registrar(settings, certificates, facts, known, Catalog(BUILT_IN))


def _entries(server: FakeApi) -> list[str]:
    """The names of the validating entries in the cluster."""
    found = server.get(VALIDATING, "cks-admission")
    return [] if found is None else [entry["name"] for entry in found["webhooks"]]


async def test_entries_follow_the_policies(server: FakeApi, api: Connection) -> None:
    """Policies that come and go take their entry with them; what is as it was is not written again."""
    known = _Known(NO_POLICIES)
    registrar = _registrar(api, known)

    assert await registrar.write()
    without = _entries(server)
    known.policies = _POLICIES
    assert [await registrar.write(), await registrar.write()] == [True, True]

    assert _entries(server) == [*without, "policies.cks-admission.dev"]
    assert [seen.path for seen in server.seen] == [f"{MUTATING}/cks-admission", f"{VALIDATING}/cks-admission"] * 2


async def test_nothing_is_written_before_the_policies_are_known(server: FakeApi, api: Connection) -> None:
    """A replica that does not know which policies there are leaves the entries of the others alone."""
    assert not await _registrar(api, _Known(None)).write()
    assert server.seen == []


async def test_what_failed_is_written_again(server: FakeApi, api: Connection) -> None:
    """After a failure it is not known what is in the cluster, so that even what was there before is written again."""
    known = _Known(_POLICIES)
    registrar = _registrar(api, known)
    assert await registrar.write()
    known.policies = NO_POLICIES
    server.failures.append(Failure(f"{VALIDATING}/cks-admission", 500, status(500, "lost"), 1))
    assert not await registrar.write()

    known.policies = _POLICIES
    before = len(server.seen)
    assert await registrar.write()

    assert len(server.seen) == before + 2
    assert "policies.cks-admission.dev" in _entries(server)
