"""When a certificate of a new CA may be shown: once API servers have had time to hear of it."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography.x509 import Certificate

from certs.authority import new_authority
from certs.material import Bundle
from webhook.authority import SETTLED_SECONDS, Trust, TrustWatch, is_registered, trusted
from webhook.certificates import by_all
from webhook.cluster.replicas.webhooks import WatchState
from webhook.configuration.settings import Registration

_AUTHORITY, _LATER = (new_authority(datetime(2026, 3, 1, tzinfo=UTC)).certificate for _ in range(2))
_OLD, _NEW = (Bundle((each,)).pem for each in (_AUTHORITY, _LATER))
_START = 1000.0


def _watch(*bundles: bytes) -> WatchState:
    """A configuration with an entry for each bundle, and one of somebody else."""
    entries: list[dict[str, Any]] = [
        {
            "name": f"{number}.cks-admission.dev",
            "clientConfig": {"caBundle": base64.b64encode(bundle).decode()} if bundle else {},
        }
        for number, bundle in enumerate(bundles)
    ]
    entries.append({"name": "theirs.example.org", "clientConfig": {}})
    return WatchState(synced=True, current={"ValidatingWebhookConfiguration": {"webhooks": entries}})


_EMPTY, _FIRST, _BOTH = _watch(b""), _watch(_OLD), _watch(_OLD + _NEW)


@pytest.mark.parametrize(
    ("looks", "answers"),
    [
        pytest.param(
            [
                (_AUTHORITY, _EMPTY, 0),
                (_AUTHORITY, _FIRST, 1),
                (_AUTHORITY, _FIRST, SETTLED_SECONDS),
                (_AUTHORITY, _FIRST, SETTLED_SECONDS + 1),
            ],
            [False, False, False, True],
            id="one-that-comes-has-to-settle",
        ),
        pytest.param(
            [(_AUTHORITY, _FIRST, 0), (_AUTHORITY, _EMPTY, 1), (_AUTHORITY, _FIRST, 2)],
            [True, False, False],
            id="one-that-goes-has-to-settle-anew",
        ),
        pytest.param(
            [
                (_AUTHORITY, _BOTH, 0),
                (_LATER, _BOTH, 0),
                (_LATER, _BOTH, SETTLED_SECONDS),
                (_AUTHORITY, _BOTH, SETTLED_SECONDS),
            ],
            [True, False, True, True],
            id="a-later-one-has-to-settle-even-if-it-is-there",
        ),
        pytest.param(
            [(_AUTHORITY, WatchState(), 0), (_AUTHORITY, _FIRST, 0)],
            [False, True],
            id="a-process-that-starts-waits-for-the-first-list-only",
        ),
        pytest.param([(_AUTHORITY, WatchState(synced=True), 0)], [True], id="nothing-is-registered"),
    ],
)
def test_a_ca_is_known_once_api_servers_had_time(
    looks: list[tuple[Certificate, WatchState, float]], answers: list[bool]
) -> None:
    """API servers hear of a CA at their own times, so it counts only after it has been there for some seconds."""
    trust, settled = Trust(), []
    for authority, watch, seconds in looks:
        trust = trust.observed(authority, watch, _START + seconds)
        settled.append(trust.settled(authority))

    assert settled == answers


@pytest.mark.parametrize(
    ("bundles", "registered"),
    [
        pytest.param([], True, id="no-entry-of-ours"),
        pytest.param([_OLD, _OLD], False, id="old"),
        pytest.param([_NEW + _OLD, _OLD], False, id="one-entry-is-old"),
        pytest.param([_NEW + _OLD, _OLD + _NEW], True, id="all-entries"),
        pytest.param([_NEW, b""], False, id="the-systems-roots"),
        pytest.param([_NEW, b"broken"], False, id="unreadable"),
    ],
)
def test_a_ca_is_registered_once_every_entry_has_it(bundles: list[bytes], *, registered: bool) -> None:
    """The API server was told of a CA when each caBundle of the service has it; where there is none nobody calls."""
    assert is_registered(_LATER, _watch(*bundles)) is registered


class _Webhooks:
    """What is known of the webhook configurations, which the test changes."""

    state = _EMPTY


def test_the_configurations_are_asked_each_time() -> None:
    """What was known before is remembered between two looks."""
    webhooks: Any = _Webhooks()
    now = _START
    knows = TrustWatch(webhooks, lambda: now)
    answers = [knows(_AUTHORITY)]
    webhooks.state = _FIRST
    answers.append(knows(_AUTHORITY))
    now += SETTLED_SECONDS
    answers.append(knows(_AUTHORITY))

    assert answers == [False, False, True]


@pytest.mark.parametrize(
    ("registration", "is_asked"),
    [
        pytest.param({"apply": True}, True, id="written"),
        pytest.param({"caOnly": True}, True, id="caBundle-alone"),
        pytest.param({}, False, id="nothing-written"),
        pytest.param({"apply": True, "caFile": "ca.crt"}, False, id="of-a-file"),
        pytest.param({"apply": True, "injectCaFrom": "cks/serving"}, False, id="of-cert-manager"),
    ],
)
def test_the_configurations_are_asked_where_they_can_tell(registration: dict[str, Any], *, is_asked: bool) -> None:
    """Where another CA is written there, as that of a proxy, waiting for the service's own would never end."""
    webhooks: Any = _Webhooks()
    found = trusted(Registration.model_validate(registration), webhooks)

    assert (isinstance(found, TrustWatch), found is by_all) == (is_asked, not is_asked)
    assert trusted(Registration(apply=True), None) is by_all
