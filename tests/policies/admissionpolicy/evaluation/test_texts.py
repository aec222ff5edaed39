"""The texts of policies are kube-apiserver's, to the letter."""

from __future__ import annotations

import pytest

from policies.admissionpolicy.evaluation.result import (
    annotation_value,
    denial_message,
    mutating_denial,
    validating_denial,
)


@pytest.mark.parametrize(
    ("message", "static", "said"),
    [
        pytest.param("from CEL", "static", "from CEL", id="expression"),
        pytest.param("  from CEL\n", "static", "from CEL", id="trimmed"),
        pytest.param("", "static", "static", id="empty"),
        pytest.param(" \t\u00a0\u2003", " static ", "static", id="blank"),
        pytest.param("two\nlines", "static", "static", id="line-break"),
        pytest.param("a\rb", "static", "a\rb", id="carriage-return"),
        pytest.param("\x1cx", "static", "\x1cx", id="no-white-space-to-go"),
        pytest.param("x" * 5120, "static", "x" * 5120, id="longest"),
        pytest.param("x" * 5121, "static", "static", id="too-long"),
        pytest.param("\u00fc" * 2561, "static", "static", id="too-many-bytes"),
        pytest.param(None, "static", "static", id="none"),
        pytest.param(7, "static", "static", id="no-text"),
        pytest.param(None, "", "failed expression: a &&\n b", id="expression-itself"),
        pytest.param("\n", "  ", "failed expression: a &&\n b", id="all-blank"),
    ],
)
def test_what_is_said_of_a_false_validation(message: object, static: str, said: str) -> None:
    """messageExpression, else message, else the expression."""
    assert denial_message(message, static, "  a &&\n b \n") == said


def test_the_words_around_a_denial() -> None:
    """Policy and binding are named; a policy that is misconfigured has no binding."""
    assert (
        validating_denial("p", "b", "no"),
        validating_denial("p", "", "no"),
        mutating_denial("p", "b", "no"),
        mutating_denial("p", "", "no"),
    ) == (
        "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
        "ValidatingAdmissionPolicy 'p' denied request: no",
        "policy 'p' with binding 'b' denied request: no",
        'policy "p" denied request: no',
    )


def test_the_value_of_an_annotation_is_cut_by_bytes() -> None:
    """10 KiB stay; half a character is replaced."""
    assert annotation_value("x" * 10240) == "x" * 10240
    assert annotation_value("x" * 10239 + "\u00fc") == "x" * 10239 + "\ufffd"
