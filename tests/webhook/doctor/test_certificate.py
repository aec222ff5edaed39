"""What the service shows, against what the API server trusts."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.builders import Json

from certs.authority import Authority, new_authority
from webhook.doctor.connection import check_certificates, check_leaf, check_secret, trusts
from webhook.doctor.observation import Endpoint, ShownChain, Unread

from .findings import FORBIDDEN, settings, told

_NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
_NAME = "svc.cloud.svc"
_KIND = "ValidatingWebhookConfiguration"
_OURS = new_authority(_NOW)
_OTHER = new_authority(_NOW)
_RENEWED = 'the service renews it; if it does not, look for "certificate not renewed" or "not registered" in its log'
_SECRET = "Secret cloud/ca"


def _settings(**sections: Any) -> Any:
    return settings(
        **{"cluster": {"namespace": "cloud"}, "registration": {"service": "svc", "apply": True}, **sections}
    )


def _entry(bundle: bytes, name: str = "labels.cks-admission.dev") -> Json:
    client: Json = {"service": {"name": "svc", "namespace": "cloud"}}
    return {
        "name": name,
        "clientConfig": {**client, "caBundle": base64.b64encode(bundle).decode()} if bundle else client,
    }


def _served(authority: Authority, host: str = "10.0.0.1", *names: str, days: float = 7) -> ShownChain:
    leaf = authority.issue(names or [_NAME], _NOW, lifetime=timedelta(days=days))
    return ShownChain(Endpoint(_NAME, host, 9443), leaf.chain)


def _check(
    served: Sequence[ShownChain],
    bundle: bytes = _OURS.cert_pem,
    *,
    days: float = 0,
    proven: bool = False,
    **sections: Any,
) -> list[tuple[str, str, str, str]]:
    chosen = _settings(**sections)
    trusted, wrong = trusts({_KIND: [_entry(bundle)]}, chosen)
    assert wrong == []
    return told(check_certificates(served, trusted, chosen, _NOW + timedelta(days=days), proven=proven))


def test_a_certificate_of_another_authority() -> None:
    """A caBundle with another CA of the same name is told with its entries, and who puts it right."""
    ((level, where, found, remedy),) = _check([_served(_OTHER)])

    assert (level, where, remedy) == ("problem", "10.0.0.1:9443", _RENEWED)
    assert found == (
        f"CN={_NAME} is signed by a CA called CN=cks-admission CA, but not by the one in the bundle "
        f"(SHA-256 {_OURS.fingerprint}): that name has another key there; "
        f"checked against the caBundle of {_KIND} labels.cks-admission.dev"
    )


def test_a_certificate_for_another_name_and_an_expired_one() -> None:
    """All that is wrong is told at once, and that a file has to be renewed by whoever gave it."""
    files = {"certFile": "tls/tls.crt", "keyFile": "tls/tls.key"}
    by = f"checked against the caBundle of {_KIND} labels.cks-admission.dev"
    renew = 'renew tls/tls.crt; if the service cannot use it, its log says "certificate refused"'

    assert _check([_served(_OURS, "10.0.0.1", "other.example.org")], days=8, tls=files) == [
        ("problem", "10.0.0.1:9443", f"it is not for {_NAME}, only for other.example.org; {by}", renew),
        (
            "problem",
            "10.0.0.1:9443",
            f"CN=other.example.org expired on 2026-03-08 12:00:00 UTC, 24 hours ago; {by}",
            renew,
        ),
    ]


def test_a_certificate_that_ends_soon() -> None:
    """Below two days, or a third of a shorter life, renewal does not work: a warning."""
    found = "its certificate expires in 36 hours, at 2026-03-08 12:00:00 UTC"
    assert _check([_served(_OURS)], days=5.5) == [("warning", "10.0.0.1:9443", found, _RENEWED)]
    assert [level for level, *_ in _check([_served(_OURS, days=1)], days=0.5)] == ["ok"]
    assert [level for level, *_ in _check([_served(_OURS, days=1)], days=0.7)] == ["warning"]


def test_an_authority_that_ends_soon() -> None:
    """The CA that signs is looked at a month ahead."""
    old = new_authority(_NOW - timedelta(days=345))

    assert _check([_served(old)], old.cert_pem)[1:] == [
        (
            "warning",
            _NAME,
            f"CN=cks-admission CA in the caBundle of {_KIND} labels.cks-admission.dev expires in 20 days",
            "the service renews it at two thirds of its lifetime; see its log",
        )
    ]


def test_replicas_with_an_authority_each() -> None:
    """Different CAs behind one name are a warning, although the API server trusts both."""
    both = [_served(_OURS), _served(_OTHER, "10.0.0.2")]

    found = _check(both, _OURS.cert_pem + _OTHER.cert_pem)

    assert [level for level, *_ in found] == ["ok", "ok", "warning"]
    assert found[2][2].startswith("its certificates are signed by different CAs: CN=cks-admission CA (")
    assert found[2][3] == (
        "this is normal for a moment while a CA is replaced; if it lasts, each replica has a CA of its own: "
        "let manage make one for all (manage.apart)"
    )


@pytest.mark.parametrize(
    ("sections", "proven", "expected"),
    [
        pytest.param(
            {},
            False,
            (
                "unknown",
                "it cannot be reached from here: no route",
                (
                    "run doctor inside the cluster: kubectl exec -n cloud deploy/cks-admission -- "
                    "cks-admission doctor --config config/cks.yaml"
                ),
            ),
            id="outside of the cluster",
        ),
        pytest.param(
            {"cluster": {"namespace": "cloud", "inCluster": True}},
            False,
            (
                "problem",
                "it cannot be reached: no route",
                "check that the service runs, listens on this address and accepts connections",
            ),
            id="inside",
        ),
        pytest.param(
            {"registration": {"url": "https://127.0.0.1:9443"}},
            True,
            (
                "unknown",
                "it cannot be reached from here: no route; the API server can reach it",
                "run doctor where the API server runs",
            ),
            id="the API server reaches it",
        ),
    ],
)
def test_who_is_not_reached(sections: Json, proven: bool, expected: tuple[str, str, str]) -> None:  # noqa: FBT001
    """Out of reach is a problem only where the service should be in reach and nothing proves that it is."""
    served = [ShownChain(Endpoint(_NAME, "10.0.0.1", 9443), Unread("no route"))]
    level, found, remedy = expected
    assert _check(served, proven=proven, **sections) == [(level, "10.0.0.1:9443", found, remedy)]


@pytest.mark.parametrize(
    ("bundle", "sections", "found", "remedy"),
    [
        pytest.param(
            b"hello",
            {},
            "the caBundle cannot be read: it has no PEM block (no line like -----BEGIN CERTIFICATE-----)",
            'the running service writes it; if it does not, look for "not registered" in its log',
            id="no PEM",
        ),
        pytest.param(
            b"",
            {"registration": {"injectCaFrom": "cloud/cert"}},
            "it has no caBundle, so the API server trusts only its own root CAs (and 1 more entry)",
            "cert-manager's cainjector writes it: see its log, and the Certificate cloud/cert",
            id="cert-manager has not written it",
        ),
        pytest.param(
            b"",
            {"registration": {}},
            "it has no caBundle, so the API server trusts only its own root CAs (and 1 more entry)",
            "write it: cks-admission export webhook-configuration --ca-file ...",
            id="nobody has",
        ),
    ],
)
def test_a_bundle_that_is_none(bundle: bytes, sections: Json, found: str, remedy: str) -> None:
    """A caBundle that is missing or no PEM is told once, with who writes it."""
    entries = [_entry(bundle), _entry(b"", "other.cks-admission.dev")]

    wrong = trusts({_KIND: entries if not bundle else entries[:1]}, _settings(**sections))[1]

    assert told(wrong) == [("problem", f"{_KIND} labels.cks-admission.dev", found, remedy)]


def test_certificates_of_somebody_else_need_no_bundle() -> None:
    """Where the API server's own roots count, only names and dates can be judged from here."""
    files = {"certFile": "tls/tls.crt", "keyFile": "tls/tls.key"}

    ((level, _, found, _),) = _check([_served(_OTHER)], b"", tls=files)

    assert level == "ok"
    assert found.startswith(
        f"its certificate is for {_NAME}, trusted if the API server's own root CAs trust it, and valid until"
    )


def test_without_configurations_nothing_is_said_of_trust() -> None:
    """Where no caBundle could be looked at, names and dates are judged, and nobody is said to trust them."""
    ((level, _, found, _),) = told(check_certificates([_served(_OTHER)], [], _settings(), _NOW, proven=True))

    assert level == "ok"
    assert found.startswith(
        f"its certificate is for {_NAME}, checked against no caBundle, since none is known, and valid until"
    )


def _stored(authority: Authority, **more: bytes) -> dict[str, bytes]:
    return {"ca.crt": authority.cert_pem, "ca.key": authority.key_pem, **more}


@pytest.mark.parametrize(
    ("secret", "days", "expected"),
    [
        pytest.param(
            _stored(_OURS),
            0,
            ("ok", "its CA is in every caBundle and is valid until 2027-03-01 12:00:00 UTC", ""),
            id="fine",
        ),
        pytest.param(
            None,
            0,
            (
                "problem",
                "it does not exist, so no replica has a certificate",
                ('manage creates it; if it does not, look for "certificate not renewed" in its log'),
            ),
            id="missing",
        ),
        pytest.param(
            {"ca.crt": _OURS.cert_pem[:100], "ca.key": _OURS.key_pem},
            0,
            (
                "problem",
                "ca.crt is damaged: block 1 (line 1) begins a CERTIFICATE and has no END line: it was cut off",
                ('manage creates a new CA; if it does not, look for "certificate not renewed" in its log'),
            ),
            id="cut off",
        ),
        pytest.param(
            {"ca.crt": b"hello", "ca.key": b""},
            0,
            (
                "problem",
                "ca.crt: it has no PEM block (no line like -----BEGIN CERTIFICATE-----); it was not made here",
                (
                    "manage creates a CA in its place; "
                    "if something else uses this Secret, choose another name for tls.secret"
                ),
            ),
            id="somebody else's",
        ),
        pytest.param(
            _stored(_OTHER),
            0,
            (
                "problem",
                f"its CA is not in the caBundle of {_KIND} labels.cks-admission.dev",
                'manage adds it; if it does not, look for "not registered" in its log',
            ),
            id="not registered",
        ),
        pytest.param(
            _stored(_OURS),
            250,
            (
                "warning",
                "its CA is overdue for renewal; it is valid until 2027-03-01 12:00:00 UTC",
                "manage renews it at two thirds of its lifetime; see its log",
            ),
            id="overdue",
        ),
        pytest.param(
            FORBIDDEN,
            0,
            (
                "unknown",
                "not checked: the current account may not list things",
                "use an account that may list things",
            ),
            id="no right",
        ),
    ],
)
def test_the_secret_with_the_authority(secret: Any, days: float, expected: tuple[str, str, str]) -> None:
    """It is there, sane, in force, and renewed in time; its key is told to nobody."""
    chosen = _settings(tls={"secret": "ca"})
    trusted = trusts({_KIND: [_entry(_OURS.cert_pem)]}, chosen)[0]
    level, found, remedy = expected

    assert told(check_secret(secret, trusted, chosen, _NOW + timedelta(days=days))) == [(level, _SECRET, found, remedy)]


def test_without_a_secret_none_is_looked_for() -> None:
    """A service that keeps its CA elsewhere has no finding about a Secret."""
    assert told(check_secret(None, [], _settings(), _NOW)) == []


_APART: dict[str, Any] = {"manage": {"apart": True, "secret": "leaf"}, "tls": {"secret": "ca", "certFile": "tls.crt"}}
_WRITES = 'manage writes it; if it does not, look for "certificate not renewed" in its log'


def _leaf(authority: Authority = _OURS) -> dict[str, bytes]:
    leaf = authority.issue([_NAME], _NOW)
    return {"tls.crt": leaf.cert_pem, "tls.key": leaf.key_pem, "ca.crt": authority.cert_pem}


@pytest.mark.parametrize(
    ("secret", "days", "expected"),
    [
        pytest.param(
            _leaf(), 1, ("ok", "its certificate is valid until 2026-03-08 12:00:00 UTC (6 days left)", ""), id="fine"
        ),
        pytest.param(
            _leaf(),
            4,
            (
                "warning",
                "its certificate is overdue for renewal; it ends on 2026-03-08 12:00:00 UTC (3 days left)",
                _WRITES,
            ),
            id="overdue",
        ),
        pytest.param(
            None,
            0,
            ("problem", "it does not exist, so no replica has a certificate and none is ready", _WRITES),
            id="missing",
        ),
        pytest.param(
            {}, 0, ("problem", "it is empty, so no replica has a certificate and none is ready", _WRITES), id="empty"
        ),
        pytest.param(
            {**_leaf(), "tls.key": b""},
            0,
            ("problem", "tls.key is damaged: it is empty", _WRITES),
            id="damaged",
        ),
        pytest.param(
            FORBIDDEN,
            0,
            ("unknown", "not checked: the current account may not list things", "use an account that may list things"),
            id="no right",
        ),
    ],
)
def test_the_secret_with_the_certificate_of_replicas(secret: Any, days: float, expected: tuple[str, str, str]) -> None:
    """If manage makes it, doctor says whether it is there, sane, and renewed in time."""
    level, found, remedy = expected
    now = _NOW + timedelta(days=days)

    assert told(check_leaf(secret, _settings(**_APART), now)) == [(level, "Secret cloud/leaf", found, remedy)]
    assert told(check_leaf(secret, _settings(), now)) == []


def test_manage_renews_what_it_makes() -> None:
    """Where manage runs apart, remedies name it, although replicas have their certificate in files."""
    ((level, _, _, remedy),) = told(check_secret(None, [], _settings(**_APART), _NOW))
    ((_, _, _, renewed),) = _check([_served(_OURS)], days=6, **_APART)

    assert (level, remedy) == (
        "problem",
        'manage creates it; if it does not, look for "certificate not renewed" in its log',
    )
    assert renewed == _RENEWED
