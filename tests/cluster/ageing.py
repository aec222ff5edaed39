"""A CA whose time is nearly over, in the Secret that the replicas share."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from certs.material import CLOCK_SKEW, Bundle, merge, new_authority
from cluster.release import NAME, NAMESPACE

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

    from cluster.release import Release

_LIFE = timedelta(days=300)


def age(release: Release, seconds: float) -> Certificate:
    """Put a CA into the release's Secret of which two thirds are over in so many seconds, and return it.

    The API server trusts it beside those that it trusts already.
    """
    now = datetime.now(UTC)
    made = now + timedelta(seconds=seconds) + CLOCK_SKEW - (_LIFE + CLOCK_SKEW) * 2 / 3
    ageing = new_authority(made, lifetime=_LIFE)
    bundle = merge((ageing.certificate, *Bundle.from_pem(release.secret()["ca-bundle.crt"])), now)
    contents = {"ca.crt": ageing.cert_pem, "ca.key": ageing.key_pem, "ca-bundle.crt": bundle.pem}
    data = {key: base64.b64encode(content).decode() for key, content in contents.items()}
    patch = ("patch", "secret", f"{NAME}-ca", "-n", NAMESPACE, "--type=merge", "-p", json.dumps({"data": data}))
    release.control_plane.kubectl(*patch, user="admin", check=True)
    return ageing.certificate
