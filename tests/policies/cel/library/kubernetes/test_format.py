"""Named formats. Expected values are those of the Go reference."""

# ruff: noqa: E501 - the messages of the reference stay in one piece

from __future__ import annotations

import pytest
from support.cel.cellibrary import answer, charged

from policies.cel.errors import CelError
from policies.cel.library.kubernetes.format import FORMATS, LIBRARY

CHECKED: list[tuple[str, str, list[list[str]]]] = [
    (
        "dns1123Label",
        "",
        [
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    ("dns1123Label", "a", []),
    (
        "dns1123Label",
        "A",
        [
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    ("dns1123Label", "a.b", [["must not contain dots"]]),
    (
        "dns1123Label",
        "a-",
        [
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1123Label",
        "é-",
        [
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1123Label",
        "a/b/c",
        [
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1123Label",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        [["must be no more than 63 characters"]],
    ),
    (
        "dns1123Label",
        "a_b/c",
        [
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    ("dns1123Label", "2020-02-29", []),
    ("dns1123Label", "2021-02-29", []),
    ("dns1123Label", "0000-02-29", []),
    (
        "dns1123Label",
        "2021-01-01T00:00:00.5Z",
        [
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1123Label",
        "2021-01-01T24:00:00Z",
        [
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1123Label",
        "2021-01-01t00:00:00zTx",
        [
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1123Label",
        "123E4567E89B12D3A456426614174000",
        [
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1123Label",
        "aGVsbG8=",
        [
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1123Label",
        "aGVsbG8",
        [
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1123Subdomain",
        "",
        [
            [
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        ],
    ),
    ("dns1123Subdomain", "a", []),
    (
        "dns1123Subdomain",
        "A",
        [
            [
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        ],
    ),
    ("dns1123Subdomain", "a.b", []),
    (
        "dns1123Subdomain",
        "a-",
        [
            [
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        ],
    ),
    (
        "dns1123Subdomain",
        "é-",
        [
            [
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        ],
    ),
    (
        "dns1123Subdomain",
        "a/b/c",
        [
            [
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        ],
    ),
    ("dns1123Subdomain", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", []),
    (
        "dns1123Subdomain",
        "a_b/c",
        [
            [
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        ],
    ),
    ("dns1123Subdomain", "2020-02-29", []),
    ("dns1123Subdomain", "2021-02-29", []),
    ("dns1123Subdomain", "0000-02-29", []),
    (
        "dns1123Subdomain",
        "2021-01-01T00:00:00.5Z",
        [
            [
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        ],
    ),
    (
        "dns1123Subdomain",
        "2021-01-01T24:00:00Z",
        [
            [
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        ],
    ),
    (
        "dns1123Subdomain",
        "2021-01-01t00:00:00zTx",
        [
            [
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        ],
    ),
    (
        "dns1123Subdomain",
        "123E4567E89B12D3A456426614174000",
        [
            [
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        ],
    ),
    (
        "dns1123Subdomain",
        "aGVsbG8=",
        [
            [
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        ],
    ),
    (
        "dns1123Subdomain",
        "aGVsbG8",
        [
            [
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        ],
    ),
    (
        "dns1035Label",
        "",
        [
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    ("dns1035Label", "a", []),
    (
        "dns1035Label",
        "A",
        [
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1035Label",
        "a.b",
        [
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1035Label",
        "a-",
        [
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1035Label",
        "é-",
        [
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1035Label",
        "a/b/c",
        [
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1035Label",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        [["must be no more than 63 characters"]],
    ),
    (
        "dns1035Label",
        "a_b/c",
        [
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1035Label",
        "2020-02-29",
        [
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1035Label",
        "2021-02-29",
        [
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1035Label",
        "0000-02-29",
        [
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1035Label",
        "2021-01-01T00:00:00.5Z",
        [
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1035Label",
        "2021-01-01T24:00:00Z",
        [
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1035Label",
        "2021-01-01t00:00:00zTx",
        [
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1035Label",
        "123E4567E89B12D3A456426614174000",
        [
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1035Label",
        "aGVsbG8=",
        [
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1035Label",
        "aGVsbG8",
        [
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "qualifiedName",
        "",
        [
            [
                "name part must be non-empty",
                "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            ]
        ],
    ),
    ("qualifiedName", "a", []),
    ("qualifiedName", "A", []),
    ("qualifiedName", "a.b", []),
    (
        "qualifiedName",
        "a-",
        [
            [
                "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
            ]
        ],
    ),
    (
        "qualifiedName",
        "é-",
        [
            [
                "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
            ]
        ],
    ),
    (
        "qualifiedName",
        "a/b/c",
        [
            [
                "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ]
        ],
    ),
    (
        "qualifiedName",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        [["name part must be no more than 63 bytes"]],
    ),
    (
        "qualifiedName",
        "a_b/c",
        [
            [
                "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        ],
    ),
    ("qualifiedName", "2020-02-29", []),
    ("qualifiedName", "2021-02-29", []),
    ("qualifiedName", "0000-02-29", []),
    (
        "qualifiedName",
        "2021-01-01T00:00:00.5Z",
        [
            [
                "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
            ]
        ],
    ),
    (
        "qualifiedName",
        "2021-01-01T24:00:00Z",
        [
            [
                "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
            ]
        ],
    ),
    (
        "qualifiedName",
        "2021-01-01t00:00:00zTx",
        [
            [
                "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
            ]
        ],
    ),
    ("qualifiedName", "123E4567E89B12D3A456426614174000", []),
    (
        "qualifiedName",
        "aGVsbG8=",
        [
            [
                "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
            ]
        ],
    ),
    ("qualifiedName", "aGVsbG8", []),
    (
        "dns1123LabelPrefix",
        "",
        [
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    ("dns1123LabelPrefix", "a", []),
    (
        "dns1123LabelPrefix",
        "A",
        [
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    ("dns1123LabelPrefix", "a.b", [["must not contain dots"]]),
    ("dns1123LabelPrefix", "a-", []),
    (
        "dns1123LabelPrefix",
        "é-",
        [
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1123LabelPrefix",
        "a/b/c",
        [
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1123LabelPrefix",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        [["must be no more than 63 characters"]],
    ),
    (
        "dns1123LabelPrefix",
        "a_b/c",
        [
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    ("dns1123LabelPrefix", "2020-02-29", []),
    ("dns1123LabelPrefix", "2021-02-29", []),
    ("dns1123LabelPrefix", "0000-02-29", []),
    (
        "dns1123LabelPrefix",
        "2021-01-01T00:00:00.5Z",
        [
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1123LabelPrefix",
        "2021-01-01T24:00:00Z",
        [
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1123LabelPrefix",
        "2021-01-01t00:00:00zTx",
        [
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1123LabelPrefix",
        "123E4567E89B12D3A456426614174000",
        [
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1123LabelPrefix",
        "aGVsbG8=",
        [
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1123LabelPrefix",
        "aGVsbG8",
        [
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1123SubdomainPrefix",
        "",
        [
            [
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        ],
    ),
    ("dns1123SubdomainPrefix", "a", []),
    (
        "dns1123SubdomainPrefix",
        "A",
        [
            [
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        ],
    ),
    ("dns1123SubdomainPrefix", "a.b", []),
    ("dns1123SubdomainPrefix", "a-", []),
    (
        "dns1123SubdomainPrefix",
        "é-",
        [
            [
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        ],
    ),
    (
        "dns1123SubdomainPrefix",
        "a/b/c",
        [
            [
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        ],
    ),
    ("dns1123SubdomainPrefix", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", []),
    (
        "dns1123SubdomainPrefix",
        "a_b/c",
        [
            [
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        ],
    ),
    ("dns1123SubdomainPrefix", "2020-02-29", []),
    ("dns1123SubdomainPrefix", "2021-02-29", []),
    ("dns1123SubdomainPrefix", "0000-02-29", []),
    (
        "dns1123SubdomainPrefix",
        "2021-01-01T00:00:00.5Z",
        [
            [
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        ],
    ),
    (
        "dns1123SubdomainPrefix",
        "2021-01-01T24:00:00Z",
        [
            [
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        ],
    ),
    (
        "dns1123SubdomainPrefix",
        "2021-01-01t00:00:00zTx",
        [
            [
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        ],
    ),
    (
        "dns1123SubdomainPrefix",
        "123E4567E89B12D3A456426614174000",
        [
            [
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        ],
    ),
    (
        "dns1123SubdomainPrefix",
        "aGVsbG8=",
        [
            [
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        ],
    ),
    (
        "dns1123SubdomainPrefix",
        "aGVsbG8",
        [
            [
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        ],
    ),
    (
        "dns1035LabelPrefix",
        "",
        [
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    ("dns1035LabelPrefix", "a", []),
    (
        "dns1035LabelPrefix",
        "A",
        [
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1035LabelPrefix",
        "a.b",
        [
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    ("dns1035LabelPrefix", "a-", []),
    (
        "dns1035LabelPrefix",
        "é-",
        [
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1035LabelPrefix",
        "a/b/c",
        [
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1035LabelPrefix",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        [["must be no more than 63 characters"]],
    ),
    (
        "dns1035LabelPrefix",
        "a_b/c",
        [
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1035LabelPrefix",
        "2020-02-29",
        [
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1035LabelPrefix",
        "2021-02-29",
        [
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1035LabelPrefix",
        "0000-02-29",
        [
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1035LabelPrefix",
        "2021-01-01T00:00:00.5Z",
        [
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1035LabelPrefix",
        "2021-01-01T24:00:00Z",
        [
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1035LabelPrefix",
        "2021-01-01t00:00:00zTx",
        [
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1035LabelPrefix",
        "123E4567E89B12D3A456426614174000",
        [
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1035LabelPrefix",
        "aGVsbG8=",
        [
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    (
        "dns1035LabelPrefix",
        "aGVsbG8",
        [
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        ],
    ),
    ("labelValue", "", []),
    ("labelValue", "a", []),
    ("labelValue", "A", []),
    ("labelValue", "a.b", []),
    (
        "labelValue",
        "a-",
        [
            [
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ]
        ],
    ),
    (
        "labelValue",
        "é-",
        [
            [
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ]
        ],
    ),
    (
        "labelValue",
        "a/b/c",
        [
            [
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ]
        ],
    ),
    (
        "labelValue",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        [["must be no more than 63 bytes"]],
    ),
    (
        "labelValue",
        "a_b/c",
        [
            [
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ]
        ],
    ),
    ("labelValue", "2020-02-29", []),
    ("labelValue", "2021-02-29", []),
    ("labelValue", "0000-02-29", []),
    (
        "labelValue",
        "2021-01-01T00:00:00.5Z",
        [
            [
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ]
        ],
    ),
    (
        "labelValue",
        "2021-01-01T24:00:00Z",
        [
            [
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ]
        ],
    ),
    (
        "labelValue",
        "2021-01-01t00:00:00zTx",
        [
            [
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ]
        ],
    ),
    ("labelValue", "123E4567E89B12D3A456426614174000", []),
    (
        "labelValue",
        "aGVsbG8=",
        [
            [
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ]
        ],
    ),
    ("labelValue", "aGVsbG8", []),
    ("uri", "", [['parse "": empty url']]),
    ("uri", "a", [['parse "a": invalid URI for request']]),
    ("uri", "A", [['parse "A": invalid URI for request']]),
    ("uri", "a.b", [['parse "a.b": invalid URI for request']]),
    ("uri", "a-", [['parse "a-": invalid URI for request']]),
    ("uri", "é-", [['parse "é-": invalid URI for request']]),
    ("uri", "a/b/c", [['parse "a/b/c": invalid URI for request']]),
    (
        "uri",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        [['parse "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": invalid URI for request']],
    ),
    ("uri", "a_b/c", [['parse "a_b/c": invalid URI for request']]),
    ("uri", "2020-02-29", [['parse "2020-02-29": invalid URI for request']]),
    ("uri", "2021-02-29", [['parse "2021-02-29": invalid URI for request']]),
    ("uri", "0000-02-29", [['parse "0000-02-29": invalid URI for request']]),
    ("uri", "2021-01-01T00:00:00.5Z", [['parse "2021-01-01T00:00:00.5Z": invalid URI for request']]),
    ("uri", "2021-01-01T24:00:00Z", [['parse "2021-01-01T24:00:00Z": invalid URI for request']]),
    ("uri", "2021-01-01t00:00:00zTx", [['parse "2021-01-01t00:00:00zTx": invalid URI for request']]),
    (
        "uri",
        "123E4567E89B12D3A456426614174000",
        [['parse "123E4567E89B12D3A456426614174000": invalid URI for request']],
    ),
    ("uri", "aGVsbG8=", [['parse "aGVsbG8=": invalid URI for request']]),
    ("uri", "aGVsbG8", [['parse "aGVsbG8": invalid URI for request']]),
    ("uuid", "", [["does not match the UUID format"]]),
    ("uuid", "a", [["does not match the UUID format"]]),
    ("uuid", "A", [["does not match the UUID format"]]),
    ("uuid", "a.b", [["does not match the UUID format"]]),
    ("uuid", "a-", [["does not match the UUID format"]]),
    ("uuid", "é-", [["does not match the UUID format"]]),
    ("uuid", "a/b/c", [["does not match the UUID format"]]),
    ("uuid", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", [["does not match the UUID format"]]),
    ("uuid", "a_b/c", [["does not match the UUID format"]]),
    ("uuid", "2020-02-29", [["does not match the UUID format"]]),
    ("uuid", "2021-02-29", [["does not match the UUID format"]]),
    ("uuid", "0000-02-29", [["does not match the UUID format"]]),
    ("uuid", "2021-01-01T00:00:00.5Z", [["does not match the UUID format"]]),
    ("uuid", "2021-01-01T24:00:00Z", [["does not match the UUID format"]]),
    ("uuid", "2021-01-01t00:00:00zTx", [["does not match the UUID format"]]),
    ("uuid", "123E4567E89B12D3A456426614174000", []),
    ("uuid", "aGVsbG8=", [["does not match the UUID format"]]),
    ("uuid", "aGVsbG8", [["does not match the UUID format"]]),
    ("byte", "", [["invalid base64"]]),
    ("byte", "a", [["invalid base64"]]),
    ("byte", "A", [["invalid base64"]]),
    ("byte", "a.b", [["invalid base64"]]),
    ("byte", "a-", [["invalid base64"]]),
    ("byte", "é-", [["invalid base64"]]),
    ("byte", "a/b/c", [["invalid base64"]]),
    ("byte", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", []),
    ("byte", "a_b/c", [["invalid base64"]]),
    ("byte", "2020-02-29", [["invalid base64"]]),
    ("byte", "2021-02-29", [["invalid base64"]]),
    ("byte", "0000-02-29", [["invalid base64"]]),
    ("byte", "2021-01-01T00:00:00.5Z", [["invalid base64"]]),
    ("byte", "2021-01-01T24:00:00Z", [["invalid base64"]]),
    ("byte", "2021-01-01t00:00:00zTx", [["invalid base64"]]),
    ("byte", "123E4567E89B12D3A456426614174000", []),
    ("byte", "aGVsbG8=", []),
    ("byte", "aGVsbG8", [["invalid base64"]]),
    ("date", "", [["invalid date"]]),
    ("date", "a", [["invalid date"]]),
    ("date", "A", [["invalid date"]]),
    ("date", "a.b", [["invalid date"]]),
    ("date", "a-", [["invalid date"]]),
    ("date", "é-", [["invalid date"]]),
    ("date", "a/b/c", [["invalid date"]]),
    ("date", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", [["invalid date"]]),
    ("date", "a_b/c", [["invalid date"]]),
    ("date", "2020-02-29", []),
    ("date", "2021-02-29", [["invalid date"]]),
    ("date", "0000-02-29", []),
    ("date", "2021-01-01T00:00:00.5Z", [["invalid date"]]),
    ("date", "2021-01-01T24:00:00Z", [["invalid date"]]),
    ("date", "2021-01-01t00:00:00zTx", [["invalid date"]]),
    ("date", "123E4567E89B12D3A456426614174000", [["invalid date"]]),
    ("date", "aGVsbG8=", [["invalid date"]]),
    ("date", "aGVsbG8", [["invalid date"]]),
    ("datetime", "", [["invalid datetime"]]),
    ("datetime", "a", [["invalid datetime"]]),
    ("datetime", "A", [["invalid datetime"]]),
    ("datetime", "a.b", [["invalid datetime"]]),
    ("datetime", "a-", [["invalid datetime"]]),
    ("datetime", "é-", [["invalid datetime"]]),
    ("datetime", "a/b/c", [["invalid datetime"]]),
    ("datetime", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", [["invalid datetime"]]),
    ("datetime", "a_b/c", [["invalid datetime"]]),
    ("datetime", "2020-02-29", [["invalid datetime"]]),
    ("datetime", "2021-02-29", [["invalid datetime"]]),
    ("datetime", "0000-02-29", [["invalid datetime"]]),
    ("datetime", "2021-01-01T00:00:00.5Z", []),
    ("datetime", "2021-01-01T24:00:00Z", [["invalid datetime"]]),
    ("datetime", "2021-01-01t00:00:00zTx", []),
    ("datetime", "123E4567E89B12D3A456426614174000", [["invalid datetime"]]),
    ("datetime", "aGVsbG8=", [["invalid datetime"]]),
    ("datetime", "aGVsbG8", [["invalid datetime"]]),
]


@pytest.mark.parametrize(("name", "text", "expected"), CHECKED)
def test_validate(name: str, text: str, expected: list[list[str]]) -> None:
    """A text that fits gives none, any other the reference's messages."""
    assert answer(LIBRARY, "validate", FORMATS[name], text) == expected


@pytest.mark.parametrize("name", list(FORMATS))
def test_named(name: str) -> None:
    """A format is found by its name and has a function of its own."""
    for found in (FORMATS[name], LIBRARY.functions[2 + list(FORMATS).index(name)].overloads[0].call):
        assert found is not None
    assert answer(LIBRARY, "format.named", name) == answer(LIBRARY, "format.named", name) != []
    assert answer(LIBRARY, f"format.{name}") == str(FORMATS[name])


def test_unknown_name() -> None:
    """A name that is not known gives none."""
    assert answer(LIBRARY, "format.named", "URI") == []


def test_equality() -> None:
    """Formats are equal by name; another type is an error."""
    assert FORMATS["uri"].cel_equal(FORMATS["uri"]) is True
    assert (FORMATS["uri"] == FORMATS["date"], len({*FORMATS.values(), *FORMATS.values()})) == (False, len(FORMATS))
    with pytest.raises(CelError, match=r"^no such overload$"):
        FORMATS["uri"].cel_equal("uri")


@pytest.mark.parametrize(
    ("name", "text", "cost"),
    [("date", "x", 18), ("date", "2020-01-01", 36), ("dns1123Label", "a", 8), ("uri", "a", 276)],
)
def test_cost(name: str, text: str, cost: int) -> None:
    """A check costs as much as a search for a regular expression of the format's size."""
    assert charged(LIBRARY, "validate", FORMATS[name], text) == cost


@pytest.mark.parametrize("sign", ["a", "a.", "-", "é"])
def test_hostile_texts(sign: str) -> None:
    """Checks of long texts end."""
    for each in FORMATS.values():
        each.check(sign * 50_000 + "!")
