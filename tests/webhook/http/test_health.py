"""What is served, and whether it may be: readiness with its reasons, as probes see it."""

from __future__ import annotations

import json

from support.service.reviews import TODAY, refused_body, rule, served
from support.service.servers import Serve, default_rules

from policies.engine.facts import StaticFacts
from policies.engine.rule import POLICY_GROUPS
from webhook.configuration.rules import build
from webhook.configuration.settings import Settings
from webhook.http.decision import GROUPS, Served, ServingState


def test_readiness_has_every_reason() -> None:
    """Each gate is asked each time, and gives its reasons under its name; the end of the process comes first."""
    state = ServingState(served())
    reasons = ["namespaces: not listed yet", "nodes: not listed yet"]
    state.add_gate("cluster", lambda: reasons)
    state.add_gate("rules", lambda: ["none are loaded"])
    state.draining = True

    assert state.unready() == [
        "draining: the service is shutting down",
        "cluster: namespaces: not listed yet",
        "cluster: nodes: not listed yet",
        "rules: none are loaded",
    ]
    reasons.clear()
    state.draining = False
    assert state.unready() == ["rules: none are loaded"]


async def test_probes_of_a_service_that_is_not_ready(serve: Serve) -> None:
    """A service that is not ready says why, a line for each reason, and is alive all the same."""
    running = await serve(served())
    running.state.add_gate("certificate", lambda: ["no certificate is served yet: tls.crt does not exist"])
    running.state.draining = True

    ready, alive = await running.get("/readyz"), await running.get("/livez")

    assert ready.status == 503
    assert ready.text.splitlines() == [
        "not ready",
        "- draining: the service is shutting down",
        "- certificate: no certificate is served yet: tls.crt does not exist",
    ]
    assert (alive.status, alive.text) == (200, "ok\n")


async def test_the_health_port_has_no_reviews(serve: Serve) -> None:
    """The plain port answers probes and metrics only."""
    running = await serve(served(rule()))

    for path in ("/validate", "/mutate", "/", "/validate/things"):
        assert (await running.get(path)).status == 404


def test_every_group_is_known_beforehand() -> None:
    """No configuration has a group that another replica, which has not read it yet, would not answer."""
    everything = build(Settings.model_validate({"sunk": {"daemonSets": "inject"}}))

    for phase, known in GROUPS.items():
        assert known - {POLICY_GROUPS["Fail"]} == everything.groups(phase)


async def test_a_replica_lists_the_paths_that_it_answers(serve: Serve) -> None:
    """`/paths` on the health port has every path at which a review is answered, and no other."""
    running = await serve(Served(default_rules(), StaticFacts(TODAY)))

    reply = await running.get("/paths")
    listed = json.loads(reply.body)
    statuses = {path: (await running.post(refused_body(), path)).status for path in [*listed, "/validate/other"]}

    assert (reply.status, reply.headers["content-type"]) == (200, "application/json; charset=utf-8")
    assert listed == sorted(listed)
    assert {path for path, status in statuses.items() if status == 200} == set(listed)
