"""What is served, and whether it may be: readiness with its reasons, as probes see it."""

from builders import pod

from policies.facts import StaticFacts
from webhook.state import Served, State

from .reviews import TODAY, body, rule, served
from .servers import Serve, default_rules


def test_readiness_has_every_reason() -> None:
    """Each gate gives its reasons under its name, in the order of the gates; the end of the process comes first."""
    state = State(served())
    reasons: list[str] = []
    state.add_gate("certificate", lambda: ())
    state.add_gate("cluster", lambda: reasons)
    assert state.unready() == []

    reasons += ["namespaces: not listed yet", "nodes: not listed yet"]
    state.add_gate("rules", lambda: ["none are loaded"])
    listed = ["cluster: namespaces: not listed yet", "cluster: nodes: not listed yet", "rules: none are loaded"]
    assert state.unready() == listed

    state.draining = True
    assert state.unready() == ["draining: the service is shutting down", *listed]


def test_a_gate_is_asked_each_time() -> None:
    """Readiness comes and goes with what a gate says now."""
    state = State(served())
    reasons = ["expired"]
    state.add_gate("certificate", lambda: reasons)

    assert state.unready() == ["certificate: expired"]
    reasons.clear()
    assert state.unready() == []


def _routes(found: Served) -> dict[str, tuple[str, str | None]]:
    return {path: (route.phase, route.group) for path, route in found.routes.items()}


def test_what_is_served_knows_its_paths() -> None:
    """The paths below /mutate and /validate are the groups of the rules' hooks by phase, and those for policies."""
    facts = StaticFacts(TODAY)

    everything = {
        "/mutate": ("mutate", None),
        "/mutate/policies": ("mutate", "policies"),
        "/validate": ("validate", None),
        "/validate/policies": ("validate", "policies"),
        "/validate/policies-ignore": ("validate", "policies-ignore"),
    }
    assert _routes(Served(default_rules(), lambda: facts)) == {
        **everything,
        "/mutate/pods": ("mutate", "pods"),
        "/mutate/daemonsets": ("mutate", "daemonsets"),
        "/validate/labels": ("validate", "labels"),
        "/validate/pods": ("validate", "pods"),
        "/validate/daemonsets": ("validate", "daemonsets"),
    }
    assert _routes(served(rule(phases=("mutate",)))) == {**everything, "/mutate/things": ("mutate", "things")}
    assert _routes(served()) == everything


async def test_probes_of_a_service_that_is_ready(serve: Serve) -> None:
    """A ready service says ok to both probes."""
    running = await serve(served())

    for path in ("/livez", "/readyz"):
        reply = await running.get(path)
        assert (reply.status, reply.headers["content-type"], reply.text) == (200, "text/plain; charset=utf-8", "ok\n")


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


async def test_a_service_that_is_not_ready_answers_reviews(serve: Serve) -> None:
    """Readiness is advice to whoever sends reviews; what is sent all the same is answered."""
    running = await serve(served(rule()))
    running.state.add_gate("cluster", lambda: ["namespaces: not listed yet"])
    running.state.draining = True

    assert (await running.post(body(pod()))).status == 200


async def test_the_health_port_has_no_reviews(serve: Serve) -> None:
    """The plain port answers probes and metrics only."""
    running = await serve(served(rule()))

    for path in ("/validate", "/mutate", "/", "/validate/things"):
        assert (await running.get(path)).status == 404
