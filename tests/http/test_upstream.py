"""What goes to a provider and what comes back: origins, headers and codings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.errors import UpstreamProtocolError, UsageError
from demur.http.upstream import Headers, Origin, UpstreamRequest, end_to_end, origin_of, readable_encoding, request_head

HERE = origin_of("http://h")


@pytest.mark.parametrize(
    ("url", "origin", "authority"),
    [
        ("http://h", Origin(secure=False, host="h", port=80), "h"),
        ("https://api.example/", Origin(secure=True, host="api.example", port=443), "api.example"),
        ("https://h:8443/base/v1/", Origin(secure=True, host="h", port=8443, prefix="/base/v1"), "h:8443"),
        ("http://[::1]:80", Origin(secure=False, host="::1", port=80), "[::1]"),
        ("http://[::1]:81", Origin(secure=False, host="::1", port=81), "[::1]:81"),
        ("HTTPS://H", Origin(secure=True, host="h", port=443), "h"),
    ],
)
def test_an_origin_is_read_from_its_url(url: str, origin: Origin, authority: str) -> None:
    """Scheme, host, port and prefix; the port stands in the authority where it is not the scheme's own."""
    assert origin_of(url) == origin
    assert origin_of(url).authority == authority


@pytest.mark.parametrize("url", ["", "h", "ftp://h", "http://", "http://h:x", "http://h?q", "http://h#f", "http://[h"])
def test_what_is_no_origin_is_refused(url: str) -> None:
    """A provider's URL is http or https with a host, and nothing after the path."""
    with pytest.raises(UsageError):
        origin_of(url)


def test_credentials_in_a_url_are_refused_and_not_repeated() -> None:
    """URLs are shown and logged, so that no key may stand in one."""
    with pytest.raises(UsageError) as caught:
        origin_of("https://user:s3cret@h")
    assert "s3cret" not in str(caught.value)


def test_hop_by_hop_headers_end_here() -> None:
    """Neither the ones of RFC 9110 nor those that `Connection` names go on; everything else does, in its order."""
    own = ((b"x-a", b"1"), (b"x-b", b"2"), (b"x-a", b"3"))
    hops = [b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"proxy-authorization"]
    headers = (*own, *((name, b"x") for name in hops), (b"connection", b"close, X-Hop"), (b"x-hop", b"1"))
    assert end_to_end(headers) == own


def test_a_request_is_written_with_what_is_ours_to_set() -> None:
    """Host, length and framing are ours; `Expect` and the client's own of these are not sent, in any spelling."""
    theirs = ((b"Host", b"evil"), (b"Content-Length", b"9"), (b"Expect", b"100-continue"), (b"Transfer-Encoding", b"x"))
    head = request_head(UpstreamRequest("POST", "/p?q=1", (*theirs, (b"X-Own", b"1")), b"ab"), HERE)
    assert head == b"POST /p?q=1 HTTP/1.1\r\nhost: h\r\nx-own: 1\r\ncontent-length: 2\r\n\r\n"


@pytest.mark.parametrize(("method", "length"), [("GET", b""), ("DELETE", b""), ("POST", b"content-length: 0\r\n")])
def test_an_empty_body_has_a_length_where_one_is_expected(method: str, length: bytes) -> None:
    """A POST without a body says so; a GET says nothing."""
    assert request_head(UpstreamRequest(method, "/"), HERE).endswith(b"host: h\r\n" + length + b"\r\n")


@given(
    st.sampled_from(["method", "target", "name", "value"]),
    st.binary(max_size=5),
    st.sampled_from([b"\r", b"\n", b"\r\n", b"\r\nx: y"]),
)
def test_nothing_can_break_a_line(where: str, before: bytes, line_break: bytes) -> None:
    """A line break in the method, the target, or a header's name or value is refused, wherever it stands."""
    made = before + line_break
    word = made.decode("latin-1")
    header = (made if where == "name" else b"x", made if where == "value" else b"y")
    method = f"GET{word}" if where == "method" else "GET"
    target = f"/{word}" if where == "target" else "/"
    with pytest.raises(UpstreamProtocolError):
        request_head(UpstreamRequest(method, target, (header,)), HERE)


def test_a_space_in_the_target_is_refused() -> None:
    """A target with a space would be read as another version of HTTP."""
    with pytest.raises(UpstreamProtocolError):
        request_head(UpstreamRequest("GET", "/a b"), HERE)


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        ((b"gzip, deflate",), b"gzip, deflate"),
        ((b"gzip, deflate, br, zstd",), b"gzip, deflate"),
        ((b"br;q=1.0, GZIP;q=0.5, *;q=0.1",), b"GZIP;q=0.5"),
        ((b"br",), b"identity"),
        ((b"*",), b"identity"),
        ((), b"identity"),
        ((b"gzip", b"br"), b"gzip"),
    ],
)
def test_no_coding_is_asked_for_that_we_cannot_read(asked: tuple[bytes, ...], sent: bytes) -> None:
    """Of what the client asks for, what we can decode goes on; where nothing is left, no coding is wanted."""
    headers: Headers = ((b"x", b"y"), *((b"accept-encoding", value) for value in asked))
    assert readable_encoding(headers) == ((b"x", b"y"), (b"accept-encoding", sent))
