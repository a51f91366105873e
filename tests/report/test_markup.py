"""Text of others stays text in a page."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from demur.report.markup import escaped


def test_escaping() -> None:
    """Signs of the markup become entities, control characters the replacement sign, lines stay lines."""
    assert escaped('<b a="\'">&\n\t\x00\ud800') == "&lt;b a=&quot;&#x27;&quot;&gt;&amp;\n\t\ufffd\ufffd"


@given(st.text(st.characters()))
def test_no_text_can_open_a_tag(text: str) -> None:
    """Whatever is given, the result has no sign of the markup but entities, and can be encoded."""
    shown = escaped(text)
    shown.encode("utf-8")
    assert not re.search("[<>\"']", shown)
