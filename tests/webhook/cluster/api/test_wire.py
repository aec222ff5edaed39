from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from webhook.cluster.api.call import Lines


@given(st.lists(st.binary().map(lambda line: line.replace(b"\n", b" "))), st.binary(), st.data())
def test_lines_do_not_depend_on_the_parts(lines: list[bytes], rest: bytes, data: st.DataObject) -> None:
    """However a body is cut into parts, the same lines come out; what follows the last line end is kept back."""
    body = b"".join(line + b"\n" for line in lines) + rest.replace(b"\n", b" ")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)))))
    splitter = Lines()

    found = [
        line
        for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True)
        for line in splitter.feed(body[start:end])
    ]

    assert found == lines
