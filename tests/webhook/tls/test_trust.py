"""When a certificate of a new CA may be shown: once API servers have had time to hear of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from certs.authority import new_authority
from webhook.configuration.settings import Registration
from webhook.tls.certificates import by_all
from webhook.tls.trust import SETTLED_SECONDS, Told, trusted

_AUTHORITY, _LATER = (new_authority(datetime(2026, 3, 1, tzinfo=UTC)).certificate for _ in range(2))


@dataclass
class _Webhooks:
    """What is known of the webhook configurations, and the time, which the test changes."""

    trusting: bool = False
    missing: list[str] = field(default_factory=list)
    now: float = 1000.0

    def unsynced(self) -> list[str]:
        """What has not arrived yet."""
        return self.missing

    def trusts(self, _authority: object) -> bool:
        """Whether the CA stands in them."""
        return self.trusting and not self.missing


def _asked() -> tuple[_Webhooks, Told]:
    webhooks: Any = _Webhooks()
    return webhooks, Told(webhooks, lambda: webhooks.now)


def test_a_ca_that_comes_has_to_settle() -> None:
    """API servers hear of it at their own times, so it counts only after it has stood there for some seconds."""
    webhooks, told = _asked()
    answers = [told(_AUTHORITY)]
    webhooks.trusting = True
    for passed in (0, SETTLED_SECONDS - 1, 1):
        webhooks.now += passed
        answers.append(told(_AUTHORITY))

    assert answers == [False, False, False, True]


def test_a_ca_that_goes_has_to_settle_anew() -> None:
    """Once it was overwritten nobody knows who has heard of what."""
    webhooks, told = _asked()
    answers = []
    for webhooks.trusting in (True, False, True):
        answers.append(told(_AUTHORITY))

    assert answers == [True, False, False]


def test_a_later_ca_has_to_settle_even_if_it_stands_there() -> None:
    """The watch of the configurations may be ahead of that of the Secret: nobody knows since when it stands there."""
    webhooks, told = _asked()
    webhooks.trusting = True
    first = told(_AUTHORITY)
    at_once = told(_LATER)
    webhooks.now += SETTLED_SECONDS

    assert (first, at_once, told(_LATER), told(_AUTHORITY)) == (True, False, True, True)


def test_a_process_that_starts_waits_for_nothing() -> None:
    """A CA that stands there at the first list has been there for long, even if it was asked about before that."""
    webhooks, told = _asked()
    webhooks.trusting, webhooks.missing = True, ["the first list"]
    before = told(_AUTHORITY)
    webhooks.missing = []

    assert (before, told(_AUTHORITY)) == (False, True)


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

    assert (isinstance(found, Told), found is by_all) == (is_asked, not is_asked)
    assert trusted(Registration(apply=True), None) is by_all
