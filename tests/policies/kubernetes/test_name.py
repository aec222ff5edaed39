"""Names as Kubernetes judges them; the words are compared in tests/policies/cel/library/test_format.py."""

import pytest

from policies.kubernetes.name import is_dns_label, is_dns_subdomain


@pytest.mark.parametrize(
    ("name", "label", "subdomain"),
    [
        pytest.param("team-a", True, True, id="label"),
        pytest.param("a.b", False, True, id="dots"),
        pytest.param("", False, False, id="empty"),
        pytest.param("A", False, False, id="upper-case"),
        pytest.param("a\n", False, False, id="line-break"),
        pytest.param("a-", False, False, id="dash-at-the-end"),
        pytest.param(64 * "a", False, True, id="64"),
        pytest.param(254 * "a", False, False, id="254"),
    ],
)
def test_names(name: str, label: bool, subdomain: bool) -> None:  # noqa: FBT001 (a table's columns)
    """Names are those of DNS labels and subdomains, with their lengths."""
    assert (is_dns_label(name), is_dns_subdomain(name)) == (label, subdomain)
