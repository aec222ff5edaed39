"""The codes of findings: short and stable, for tools and for people who look them up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from policies.admissionpolicy.model import LINT_IGNORE
from policies.kubernetes.spelling import closest


class Meaning(NamedTuple):
    """The name of a code, and what it means."""

    name: str
    text: str


CODES: Mapping[str, Meaning] = {
    "CKS101": Meaning("type-error", "An expression does not match the schema of a kind that the policy applies to"),
    "CKS102": Meaning(
        "missing-has", "A field that may be absent is read without a test; if it is absent, the expression fails"
    ),
    "CKS103": Meaning(
        "quantity-comparison", "A quantity, which is a text, is compared with a number, or as a text"
    ),
    "CKS104": Meaning("null-object", "`object` is read on DELETE, or `oldObject` on CREATE, where it is null"),
    "CKS105": Meaning("unreachable-validation", "A validation can never fail"),
    "CKS106": Meaning("never-matches", "A rule, selector or binding that no request can match"),
    "CKS107": Meaning("no-remedy", "There is no message, or it does not say what to do"),
    "CKS108": Meaning(
        "native-panic", "An expression that makes kube-apiserver panic, so the policy cannot be created"
    ),
    "CKS109": Meaning("unused-variable", "A variable that no expression reads"),
    "CKS110": Meaning("unused-params", "A `paramKind`, but no expression reads `params`"),
    "CKS111": Meaning("doubtful", "Valid, but probably not intended, such as a paramRef without a `paramKind`"),
    "CKS112": Meaning("unknown-ignore", f"`{LINT_IGNORE}` names a finding that does not exist"),
}  # fmt: skip
"""All codes. A code never gets another meaning; one that is given up is not used again."""

BY_NAME: Mapping[str, str] = {meaning.name: code for code, meaning in CODES.items()}


class UnknownCodeError(Exception):
    """There is no such code; the text names the nearest one."""


def named(text: str) -> frozenset[str]:
    """The codes that a text stands for: a code, the beginning of codes, or a name. Raises UnknownCodeError."""
    upper = text.upper()
    codes = {BY_NAME[text]} if text in BY_NAME else {code for code in CODES if text and code.startswith(upper)}
    if not codes:
        meant = closest(text, BY_NAME) or closest(upper, CODES)
        raise UnknownCodeError(f"{text}: there is no such code" + (f"; did you mean {meant}?" if meant else ""))
    return frozenset(codes)
