"""Which kinds of reports an audit writes."""

from __future__ import annotations

import pytest

from policies.engine.request import GroupVersionResource
from webhook.audit.reports.form import OPEN_REPORTS, POLICY_REPORTS, Form, NoReportsError
from webhook.cluster.inspection.reports import Kinds, kinds
from webhook.cluster.inspection.served import ServedResource


def _kinds(form: Form) -> Kinds:
    names = ((form.plural, form.kind), (form.cluster_plural, form.cluster_kind))
    one, other = (
        ServedResource(GroupVersionResource(form.group, form.version, plural), kind, plural == form.plural)
        for plural, kind in names
    )
    return Kinds(form, one, other)


_OPEN, _POLICY = _kinds(OPEN_REPORTS), _kinds(POLICY_REPORTS)


def test_the_newest_kinds_are_written() -> None:
    """OpenReports are written where they are served, else PolicyReports; a group with one of two kinds is none."""
    assert kinds([*_POLICY[1:], *_OPEN[1:]]) == (_OPEN, _POLICY)
    assert kinds([*_POLICY[1:], _OPEN.namespaced]) == (_POLICY,)


def test_a_cluster_without_reports_is_told() -> None:
    """Whoever asks for reports where there are no kinds for them learns which ones to install."""
    with pytest.raises(NoReportsError) as error:
        kinds([])

    assert str(error.value) == (
        "-o reports: the cluster has neither openreports.io/v1alpha1 nor wgpolicyk8s.io/v1alpha2; install the "
        "CustomResourceDefinitions of one of them, see https://github.com/openreports/reports-api"
    )
