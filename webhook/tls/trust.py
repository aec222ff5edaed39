"""Whether the API server trusts a CA by now, so that a certificate of it may be shown."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from cryptography import x509

from webhook.configuration.settings import Registration
from webhook.tls.certificates import Trusted, by_all

if TYPE_CHECKING:
    from webhook.cluster.watches.webhooks import Webhooks

# API servers learn of webhook configurations by watches of their own, each at its own time. One that is busy, or cut
# off from etcd for a moment, has so long to hear of a new CA before it meets it.
SETTLED_SECONDS = 10.0


def trusted(registration: Registration, webhooks: Webhooks | None) -> Trusted:
    """Who says whether API servers know a CA: the webhook configurations where the service's own is written there."""
    writes = registration.apply or registration.ca_only
    others = registration.ca_file or registration.inject_ca_from
    return Told(webhooks) if webhooks is not None and writes and not others else by_all


class Told:
    """Says of a CA whether it stands in the webhook configurations, and has stood there for a while.

    The first one that it is asked about, when the process starts, has stood there for long if it does. A later one may
    have come a moment before this process heard of it: what is watched does not arrive in the order of its making.
    """

    def __init__(self, webhooks: Webhooks, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._webhooks = webhooks
        self._monotonic = monotonic
        self._since: dict[x509.Certificate, float] = {}
        """When CAs were first found there; infinity for those that were not, minus infinity for the first one."""

    def __call__(self, authority: x509.Certificate) -> bool:
        """Whether API servers know this CA."""
        now = self._monotonic()
        if self._webhooks.unsynced():
            return False  # it may have stood there for long
        if not self._webhooks.trusts(authority):
            self._since[authority] = float("inf")
            return False
        unknown = now if self._since else float("-inf")
        since = min(self._since.get(authority, unknown), now)
        self._since[authority] = since
        return now - since >= SETTLED_SECONDS
