"""Streams through the gateway over real sockets: nothing forbidden leaks, nothing benign is lost, all of it on record."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.gatewaying import HARMLESS, POLICY_FILE, Running, Stub, chat, gateway, passports, verified
from tests.gateway.guard.conformance import (
    BEFORE,
    PHRASE,
    SHAPES,
    Case,
    Said,
    benign_cases,
    check_whole,
    check_withheld,
    forbidden_cases,
    listen,
    make,
    parts,
)
from tests.http.serving import serving
from tests.patience import until

from demur.gateway.settings import AuditorsPart, FailurePart, OnFailure, StreamingPart, StreamWord
from demur.model.exchange import Shape
from demur.model.passport import DeclineCause, StreamMode

FORBIDDEN = '@id("phrase") @decision("deny") @reason("a phrase")\nforbid (principal, action == Action::"response", resource) when { context.claims.forbidden };'
SEEN = FORBIDDEN.replace("deny", "warn")
MESSAGE = "Withheld by policy: a phrase."
AUDITOR = Path(__file__).with_name("phrase_auditor.py")


@contextmanager
def guarded(
    folder: Path, stub: Stub, mode: StreamWord = StreamWord.AUTO, *, policy: str = FORBIDDEN, **more: Any
) -> Iterator[Running]:
    chain = folder / "auditors.yaml"
    chain.write_text(f"chain:\n  - name: phrases\n    python: {AUDITOR}:PhraseAuditor\n", encoding="utf-8")
    settings = {
        "auditors": AuditorsPart(str(chain)),
        "streaming": StreamingPart(mode, window_chars=more.pop("window", 40)),
        **more,
    }
    with serving(stub) as upstream, gateway(folder, upstream, policy=policy, **settings) as running:
        yield running


def load(stub: Stub, case: Case, *, cut_every: int = 0) -> None:
    payload = case.payload
    stub.pieces = (
        tuple(payload[at : at + cut_every] for at in range(0, len(payload), cut_every)) if cut_every else case.events
    )


@pytest.mark.heavy
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mode", [StreamWord.WINDOW, StreamWord.BUFFER])
def test_nothing_forbidden_leaks(tmp_path: Path, shape: Shape, mode: StreamWord) -> None:
    """Wherever the phrase is cut, whichever strand it stands in, the provider's own client hears none of it."""
    stub, count = Stub(), 0
    with guarded(tmp_path, stub, mode) as running:
        for case in forbidden_cases():
            if case.shape is shape:
                load(stub, case)
                check_withheld(case, listen(shape, running.url), MESSAGE)
                count += 1
    found = passports(tmp_path)
    assert len(found) == count > 80
    assert {passport.causes[0] for passport in found} == {DeclineCause.GATEWAY_BLOCK}
    assert verified(tmp_path).faults == ()


@pytest.mark.heavy
@pytest.mark.parametrize("mode", list(StreamWord))
def test_nothing_benign_is_lost(tmp_path: Path, mode: StreamWord) -> None:
    """A benign answer is heard whole in every mode, bytes cut anywhere, and is on record as scanned to its end."""
    stub = Stub()
    with guarded(tmp_path, stub, mode) as running:
        for number, case in enumerate(benign_cases()):
            load(stub, case, cut_every=(0, 7, 1000)[number % 3])
            check_whole(case, listen(case.shape, running.url))
    modes = {StreamWord.PASS: StreamMode.PASSED, StreamWord.BUFFER: StreamMode.HELD}
    found = passports(tmp_path)
    assert len(found) == len(list(benign_cases()))
    for passport in found:
        seen = passport.phases[-1].coverage
        assert seen is not None
        assert (seen.mode, seen.scanned_bytes) == (modes.get(mode, StreamMode.WINDOWED), seen.total_bytes)
        assert passport.gaps == ()
        assert DeclineCause.GATEWAY_BLOCK not in passport.causes


def phrase_case() -> Case:
    return make("phrase", Shape.OPENAI_CHAT, [Said(p) for p in parts(BEFORE + PHRASE, 9)])


def test_auto_passes_where_no_rule_withholds(tmp_path: Path) -> None:
    """With warnings alone the first pieces arrive while the provider still writes, and the end is scanned all the same."""
    stub = Stub(hold=threading.Event())
    load(stub, phrase_case())
    with guarded(tmp_path, stub, policy=SEEN) as running, running.openai() as client:
        stream = client.chat.completions.create(**chat(HARMLESS, stream=True))
        heard = ""
        for chunk in stream:
            heard += (chunk.choices[0].delta.content or "") if chunk.choices else ""
            if heard == BEFORE + PHRASE:
                assert stub.hold is not None
                stub.hold.set()
    (found,) = passports(tmp_path)
    seen = found.phases[1]
    assert seen.coverage is not None
    assert seen.coverage.mode is StreamMode.PASSED
    assert [rule.id for rule in seen.decision.rules] == ["phrase"]


def test_a_policy_that_changes_meanwhile_does_not_open_a_stream(tmp_path: Path) -> None:
    """An exchange is held by the policy under which it was asked, though the one in force by then withholds nothing."""
    stub = Stub(begin=threading.Event())
    load(stub, phrase_case())
    closed = '@id("closed") @decision("deny")\nforbid (principal, action == Action::"request", resource);'
    with guarded(tmp_path, stub, reload_s=0.02) as running, ThreadPoolExecutor(1) as others:
        heard = others.submit(listen, Shape.OPENAI_CHAT, running.url)
        until(lambda: stub.asked)
        (tmp_path / "policies" / POLICY_FILE).write_text(f"{SEEN}\n{closed}", encoding="utf-8")
        until(lambda: running.ask().status == 403)
        assert stub.begin is not None
        stub.begin.set()
        check_withheld(phrase_case(), heard.result(20), MESSAGE)


@pytest.mark.parametrize(("mode", "says"), [(OnFailure.CLOSED, True), (OnFailure.OPEN, False)])
def test_a_cut_stream_is_recorded_as_cut(tmp_path: Path, mode: OnFailure, says: bool) -> None:  # noqa: FBT001 — a table
    """A provider that breaks off ends as an error, or as it broke off, by the settings; either is on record."""
    stub = Stub(pieces=phrase_case().events[:4], cut=True)
    with guarded(tmp_path, stub, policy=SEEN, failure=FailurePart(upstream=mode)) as running:
        got = running.ask(stream=True)
        assert (b"upstream_cut" in got.body) is says
        assert b"[DONE]" not in got.body
    (found,) = passports(tmp_path)
    assert "upstream_cut" in [gap.what for gap in found.gaps]
    assert verified(tmp_path).faults == ()


def test_an_error_in_place_of_a_stream_is_a_whole_answer(tmp_path: Path) -> None:
    """JSON in answer to a request for a stream, status 200 and all, is read and sent as what it is."""
    body = b'{"error": {"message": "no such thing", "type": "server_error", "code": null}}'
    stub = Stub(pieces=(body,))
    with guarded(tmp_path, stub) as running:
        got = running.ask(stream=True)
    assert (got.status, got.body) == (200, body)
    (found,) = passports(tmp_path)
    assert found.causes == (DeclineCause.PROVIDER_ERROR,)


HALF = b'{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Par'


@pytest.mark.heavy
@pytest.mark.parametrize("word", [StreamWord.PASS, StreamWord.WINDOW, StreamWord.BUFFER])
@pytest.mark.parametrize(("mode", "status"), [(OnFailure.CLOSED, 502), (OnFailure.OPEN, 200)])
def test_a_cut_answer_in_place_of_a_stream_is_no_whole_answer(
    tmp_path: Path, word: StreamWord, mode: OnFailure, status: int
) -> None:
    """A body that breaks off is an error, or passes with its gap on record, by the settings; either is counted once."""
    stub = Stub(pieces=(HALF,), content_type=b"application/json", cut=True)
    with guarded(tmp_path, stub, word, failure=FailurePart(upstream=mode)) as running:
        got = running.ask(stream=True)
        assert got.status == status
        assert 'demur_upstream_failures_total{fault="cut"} 1\n' in running.metrics()
    (found,) = passports(tmp_path)
    if mode is OnFailure.OPEN:
        assert (got.body, [gap.what for gap in found.gaps]) == (HALF, ["upstream_cut"])
    else:
        assert (got.json["error"]["code"], found.gaps) == ("upstream_cut", ())
    assert verified(tmp_path).faults == ()


def test_compressed_json_in_place_of_a_stream_is_no_longer_called_compressed(tmp_path: Path) -> None:
    """What is passed on decoded does not carry the name of its coding."""
    body = b'{"id":"c","choices":[]}'
    stub = Stub(pieces=(gzip.compress(body),), content_type=b"application/json", coding=b"gzip")
    with serving(stub) as url, gateway(tmp_path, url) as running:
        got = running.ask(stream=True)
    assert (got.body, "content-encoding" in got.headers) == (body, False)
