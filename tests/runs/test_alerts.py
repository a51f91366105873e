"""A webhook is sent what it should be, twice at most, and gauges are in the format that Prometheus reads."""

from __future__ import annotations

import pytest
from tests.wire.loopback import answering

from demur.errors import UsageError
from demur.runs.alerts import Webhook, metrics_text


def test_a_webhook_takes_an_object() -> None:
    """The body arrives as it is, at the path and query of the URL, and nothing went wrong."""
    with answering(b"thanks") as stub:
        assert Webhook(f"{stub.url}/a/b?key=1").post(b'{"a": 1}') is None
    assert (stub.paths, stub.bodies) == (["/a/b?key=1"], [{"a": 1}])


@pytest.mark.parametrize("url", ["ftp://host/x", "host", "http://", "http://h:port/", "file:///etc/hosts"])
def test_urls_that_are_none(url: str) -> None:
    """Only http and https URLs with a host are taken, and what is wrong shows nothing of a URL that may be secret."""
    with pytest.raises(UsageError, match="webhook") as raised:
        Webhook(url)
    assert url not in str(raised.value)


def test_gauges() -> None:
    """Each gauge has its help, its type and its value, and a log's name cannot break a line."""
    text = metrics_text('a"b\\c\nd', {"demur_x": ("What.", 3), "demur_y": ("Other.", float("inf"))})
    assert text.splitlines() == [
        "# HELP demur_x What.",
        "# TYPE demur_x gauge",
        'demur_x{log="a\\"b\\\\c\\nd"} 3',
        "# HELP demur_y Other.",
        "# TYPE demur_y gauge",
        'demur_y{log="a\\"b\\\\c\\nd"} +Inf',
    ]
