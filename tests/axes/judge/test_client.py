"""A judge is asked over HTTP, patiently but not forever, and what it did not say is not made up."""

from __future__ import annotations

import asyncio
import itertools
import threading
from pathlib import Path

import pytest
from tests.axes.judge.judge_server import judging, label

from demur.axes.judge.client import JudgeCache, JudgeClient, JudgeEndpoint, JudgeKind, judge_from_environment
from demur.errors import UsageError
from demur.model.axes import JudgeAsk, JudgeReply

ASK = JudgeAsk("judge this", "<answer-0123456789ab>\nfine\n</answer-0123456789ab>", ("safe", "unsafe"))
BUSY: tuple[int, dict[str, str], bytes] = (503, {}, b"busy")


def accepts(_: JudgeAsk, text: str) -> bool:
    return "label" in text


def client(
    url: str, *, waited: list[float] | None = None, cache: JudgeCache | None = None, **more: object
) -> JudgeClient:
    waits = [] if waited is None else waited

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    return JudgeClient(JudgeEndpoint(url, "m", **{"backoff_s": 0.5, **more}), cache, sleep=sleep)  # type: ignore[arg-type]  # the test's own settings


def ask(one: JudgeClient) -> JudgeReply:
    return one.ask_all([ASK], accepts=accepts)[0]


def test_a_judge_that_speaks_as_openai() -> None:
    """The key, the model and both messages arrive; text and tokens come back."""
    with judging(lambda shown: label("safe" if shown["answer"] == "fine" else "unsafe")) as server:
        reply = ask(client(server.url, key="k"))
    assert reply == JudgeReply(label("safe"), calls=1, input_tokens=100, output_tokens=10)
    assert server.headers[0]["authorization"] == "Bearer k"
    assert [m["role"] for m in server.bodies[0]["messages"]] == ["system", "user"]
    assert server.bodies[0]["temperature"] == 0


def test_a_judge_that_speaks_as_anthropic() -> None:
    """The system text stands apart, the key in its own header."""
    with judging(lambda _: label("safe")) as server:
        reply = ask(client(server.url, kind=JudgeKind.ANTHROPIC, key="k"))
    assert (reply.text, reply.input_tokens) == (label("safe"), 100)
    assert server.bodies[0]["system"] == "judge this"
    assert server.headers[0]["x-api-key"] == "k"


def test_busy_servers_are_asked_again_with_growing_waits() -> None:
    """Waits double, the server's own wish counts up to the bound, and the third try is the charm."""
    waited: list[float] = []
    with judging(lambda _: label("safe")) as server:
        server.before = [BUSY, (429, {"Retry-After": "3600"}, b"")]
        reply = ask(client(server.url, waited=waited, longest_wait_s=2.0))
    assert (reply.text, reply.calls, waited) == (label("safe"), 3, [0.5, 2.0])


@pytest.mark.parametrize(
    ("planned", "why", "calls"),
    [
        (BUSY, "HTTP 503", 3),
        ((400, {}, b"no"), "HTTP 400", 1),
        ((302, {"Location": "http://127.0.0.1:9/"}, b""), "HTTP 302", 1),
        ((200, {}, b"<html>"), "not of the protocol", 1),
        ((200, {}, b'{"choices": []}'), "empty", 1),
        ((200, {}, b"x" * (1024 * 1024 + 1)), "longer than", 1),
        ((200, {}, b'{"choices": [{"message": {"content": "safe, I think"}}]}'), "not a verdict", 3),
        ((200, {"Content-Length": "99"}, b"{"), "no answer", 3),
    ],
)
def test_what_fails_is_missing(planned: tuple[int, dict[str, str], bytes], why: str, calls: int) -> None:
    """An error, a page, a flood and an unreadable reply are replies without text, after a bounded number of calls."""
    with judging(lambda _: label("safe")) as server:
        server.before = [planned] * 3
        reply = ask(client(server.url, attempts=3, timeout_s=2.0))
    assert reply.text is None
    assert why in reply.why
    assert reply.calls == calls


def test_nobody_there_is_missing() -> None:
    """A closed port is a reason, not an exception."""
    with judging(lambda _: label("safe")) as server:
        url = server.url
    reply = ask(client(url, attempts=2))
    assert (reply.text, reply.calls) == (None, 2)
    assert reply.why == "no answer (connection refused)"


def test_a_judge_that_is_gone_is_not_asked_for_ever() -> None:
    """After five questions in a row without an answer nothing more is sent, and every other question has that reason."""
    asks = [JudgeAsk("s", str(i), ()) for i in range(40)]
    with judging(lambda _: label("safe")) as server:
        server.before = [(429, {}, b"")] * 400
        replies = client(server.url, at_once=1, attempts=2).ask_all(asks, accepts=accepts)
    assert len(server.bodies) == 10
    assert {reply.text for reply in replies} == {None}
    assert {reply.why for reply in replies[5:]} == {"it answers with HTTP 429, 5 questions in a row"}


def test_one_answer_among_losses_keeps_it_going() -> None:
    """Questions that are lost here and there stop nothing."""
    asks = [JudgeAsk("s", str(i), ()) for i in range(12)]
    with judging(lambda _: label("safe")) as server:
        server.before = [BUSY, BUSY, BUSY, BUSY]
        replies = client(server.url, at_once=1, attempts=1).ask_all(asks, accepts=accepts)
    assert [reply.text is None for reply in replies] == [True] * 4 + [False] * 8


def test_a_slow_judge_is_asked_twice() -> None:
    """Who lets the time run out is tried once more, and then the question is lost."""
    gate = threading.Event()
    with judging(lambda _: label("safe") if gate.wait(20) else "") as server:
        reply = ask(client(server.url, timeout_s=0.2))
        gate.set()
    assert (reply.text, reply.why, reply.calls) == (None, "no answer (timed out)", 2)


def test_a_refused_key_stops_all() -> None:
    """After a 401 nothing further is sent, and every question has that reason."""
    asks = [JudgeAsk("s", str(i), ()) for i in range(20)]
    with judging(lambda _: label("safe")) as server:
        server.before = [(401, {}, b"")] * 20
        replies = client(server.url, at_once=1).ask_all(asks, accepts=accepts)
    assert len(server.bodies) == 1
    assert {reply.why for reply in replies} == {"it answers with HTTP 401"}


def test_answers_are_kept_by_what_was_asked(tmp_path: Path) -> None:
    """The same question costs one call for ever; another model, or a rotten file, is asked anew; no question is stored."""
    with judging(lambda _: label("safe")) as server:
        cache = JudgeCache(tmp_path)
        assert ask(client(server.url, cache=cache)).calls == 1
        again = ask(client(server.url, cache=cache))
        assert (again.text, again.cached, again.calls) == (label("safe"), True, 0)
        other = JudgeClient(JudgeEndpoint(server.url, "other"), cache)
        assert ask(other).calls == 1
        for file in tmp_path.rglob("*.json"):
            assert "fine" not in file.read_text(encoding="utf-8")
            file.write_text("{", encoding="utf-8")
        assert ask(client(server.url, cache=cache)).calls == 1


def test_unreadable_replies_are_not_kept(tmp_path: Path) -> None:
    """What nobody can read is asked again next time."""
    with judging(lambda _: "well, safe") as server:
        for _ in range(2):
            assert ask(client(server.url, cache=JudgeCache(tmp_path), attempts=1)).calls == 1
    assert list(tmp_path.rglob("*.json")) == []


def test_answers_keep_the_order_of_questions() -> None:
    """Many at once come back each in its place."""
    asks = [JudgeAsk("s", f"<answer-0123456789ab>\n{i}\n</answer-0123456789ab>", ()) for i in range(30)]
    with judging(lambda shown: label(shown["answer"])) as server:
        replies = client(server.url, at_once=8).ask_all(asks, accepts=accepts)
    assert [reply.text for reply in replies] == [label(str(i)) for i in range(30)]


def test_prices() -> None:
    """Cost is tokens times prices, and unknown where a price is."""
    assert client("http://x").cost_of(1, 1) is None
    assert client("http://x", price_input=2.0, price_output=10.0).cost_of(500_000, 100_000) == 2.0


def test_settings(tmp_path: Path) -> None:
    """No address, no judge; half a setting is an error; the key shows nowhere."""
    assert judge_from_environment({}) is None
    full = {"DEMUR_JUDGE_URL": "http://x/v1/", "DEMUR_JUDGE_MODEL": "m", "DEMUR_JUDGE_KEY_ENV": "K", "K": "hidden"}
    more = {"DEMUR_JUDGE_PRICE_INPUT": "1", "DEMUR_JUDGE_CACHE": str(tmp_path / "c")}
    assert judge_from_environment({**full, **more}) is not None
    (tmp_path / "file").touch()
    assert "hidden" not in repr(JudgeEndpoint("http://x", "m", key="hidden"))
    with judging(lambda _: label("safe")) as server:
        named = judge_from_environment({**full, "DEMUR_JUDGE_URL": server.url})
        assert named is not None
        ask(named)
    assert server.headers[0]["authorization"] == "Bearer hidden"
    bad = {"MODEL": "", "KIND": "gemini", "PRICE_INPUT": "x", "PRICE_OUTPUT": "-1", "URL": "x", "KEY_ENV": "NONE_SUCH"}
    for name, value in {**bad, "CACHE": str(tmp_path / "file")}.items():
        with pytest.raises(UsageError):
            judge_from_environment({**full, f"DEMUR_JUDGE_{name}": value})
    with pytest.raises(UsageError, match="at least once"):
        client("http://x", attempts=0)


def test_an_answer_that_is_no_verdict_is_asked_for_again_at_once() -> None:
    """There is nobody to wait for where somebody answered."""
    waited: list[float] = []
    with judging(lambda _: "well…") as server:
        reply = ask(client(server.url, waited=waited, attempts=3))
    assert (reply.text, reply.calls, waited) == (None, 3, [])


@pytest.mark.parametrize("count", [b"null", b"10.0", b"-3", b'"many"', b"1e300"])
def test_tokens_that_nobody_can_count_cost_no_verdict(count: bytes) -> None:
    """A verdict beside an odd `usage` is a verdict."""
    said = b'"choices": [{"message": {"content": "{\\"label\\": \\"safe\\"}"}}]'
    with judging(lambda _: label("safe")) as server:
        server.before = [(200, {}, b'{%b, "usage": {"prompt_tokens": %b}}' % (said, count))]
        reply = ask(client(server.url))
    assert (reply.text, reply.calls) == ('{"label": "safe"}', 1)
    assert reply.input_tokens == (10 if count == b"10.0" else 0)


def test_an_answer_that_trickles_in_for_ever_is_none() -> None:
    """The time of a call is that of its whole answer, not of each byte."""
    seconds = itertools.count(0.0, 45.0)
    # Far more than is held at once, so that it comes in several pieces.
    with judging(lambda _: label("safe") + " " * 900_000) as server:
        endpoint = JudgeEndpoint(server.url, "m", timeout_s=60.0, attempts=2, backoff_s=0.0)
        reply = ask(JudgeClient(endpoint, clock=lambda: next(seconds)))
    assert (reply.text, reply.why) == (None, "no answer (timed out)")


def test_a_judge_is_asked_from_within_an_event_loop() -> None:
    """A notebook, whose cells run in an event loop, gets its replies like any other caller."""

    async def cell(one: JudgeClient) -> JudgeReply:
        return ask(one)

    with judging(lambda _: label("safe")) as server:
        assert asyncio.run(cell(client(server.url))).text == label("safe")


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge is asked through the proxy that the environment names, unless it is exempt."""
    with judging(lambda _: label("safe")) as server:
        monkeypatch.setenv("http_proxy", server.url.removesuffix("/v1"))
        monkeypatch.setenv("no_proxy", "")
        assert ask(client("http://judge.invalid/v1")).text == label("safe")
        monkeypatch.setenv("no_proxy", "judge.invalid")
        assert ask(client("http://judge.invalid/v1", attempts=1)).text is None
    assert server.headers[0]["host"] == "judge.invalid"
