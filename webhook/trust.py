"""Whether the API server trusts a CA by now, so that a certificate of it may be shown."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from cryptography import x509

from certs.bundle import Bundle

if TYPE_CHECKING:
    from webhook.cluster.webhooks import Webhooks

# API servers learn of webhook configurations by watches of their own, each at its own time. One that is busy, or cut
# off from etcd for a moment, has so long to hear of a new CA before it meets it.
SETTLED_SECONDS = 10.0


class Told:
    """Says of a CA whether it stands in the webhook configurations, and has stood there for a while.

    One that stood there when it was first asked about has been there for long.
    """

    def __init__(self, webhooks: Webhooks, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._webhooks = webhooks
        self._monotonic = monotonic
        self._since: dict[x509.Certificate, float] = {}
        """When CAs were seen there for the first time that had not been there before; infinity for those to come."""

    def __call__(self, authority: x509.Certificate) -> bool:
        """Whether API servers know this CA."""
        now = self._monotonic()
        if not self._webhooks.trusts(Bundle((authority,)).pem):
            self._since[authority] = float("inf")
            return False
        since = min(self._since.get(authority, float("-inf")), now)
        self._since[authority] = since
        return now - since >= SETTLED_SECONDS
