"""A replica becomes ready only if it knows what the API server asks it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from webhook.cluster.replicas.webhooks import Recognition, WatchState

KIND = "ValidatingWebhookConfiguration"
UNKNOWN = "the API server asks for /validate/new, which this version does not know; manage removes such entries"
SETTLING = "an entry that this version does not know was removed just now, and API servers may still ask it"


class Scene:
    """A replica that answers one path, and what the API server asks."""

    def __init__(self, *paths: str) -> None:
        self.now = 100.0
        self.was_ready = False
        self.unsynced: list[str] = []
        self.asked = paths
        webhooks: Any = SimpleNamespace(unsynced=lambda: self.unsynced)
        self.webhooks = webhooks
        self.recognition = Recognition(webhooks, lambda: {"/validate/old"}, lambda: self.was_ready, lambda: self.now)

    def unready(self) -> list[str]:
        """Why it is not ready."""
        entries = [
            {"name": "x.cks-admission.dev", "clientConfig": {"service": {"path": path}}, "failurePolicy": "Fail"}
            for path in self.asked
        ]
        self.webhooks.state = WatchState(synced=True, current={KIND: {"webhooks": entries}})
        return self.recognition.unready()


def test_what_it_knows_holds_nobody_up() -> None:
    """A replica that answers every path is ready at once, once it has seen the configurations."""
    scene = Scene("/validate/old")
    scene.unsynced = ["not listed yet"]
    first = scene.unready()
    scene.unsynced = []

    assert (first, scene.unready()) == (["not listed yet"], [])


def test_it_waits_until_the_entry_has_gone_and_all_know() -> None:
    """While it is registered the reason names the path; then API servers get a few seconds to hear of it."""
    scene = Scene("/validate/old", "/validate/new")
    first = scene.unready()
    scene.asked = ("/validate/old",)
    scene.now += 4.9
    second = scene.unready()
    scene.now += 0.1

    assert (first, second, scene.unready()) == ([UNKNOWN], [SETTLING], [])


def test_once_ready_it_stays_so() -> None:
    """An entry that comes later answers 503 on one path, and takes no replica away from the others."""
    scene = Scene("/validate/old", "/validate/new")
    scene.was_ready = True

    assert scene.unready() == []
