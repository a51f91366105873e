"""Gaps and causes: each word that the gateway has for one can occur, is on record and counted, and means one thing."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.gatewaying import (
    ANSWER,
    CHAT,
    HARMLESS,
    LOG_ONLY,
    POLICY_FILE,
    Stub,
    broken_store,
    chat,
    gateway,
    gone_auditor,
    passports,
    provider,
    verified,
)
from tests.gateway.test_streams import SEEN, guarded, load, phrase_case
from tests.http.serving import serving
from tests.patience import until

from demur.gateway.metrics import GAPS, gateway_families
from demur.gateway.settings import Durability, FailurePart, LimitsPart, OnFailure, StorePart, StreamWord, TimeoutsPart
from demur.model.passport import DeclineCause, Passport, RejectReason
from demur.simulate.server.run import RunningSimulator

pytestmark = pytest.mark.heavy

PAGE = Path(__file__).parents[2] / "docs" / "gateway.md"


def failed_open(folder: Path) -> str:
    """An auditor that nobody answers for, and that may be done without."""
    gone = gone_auditor(folder, "open")
    with serving(provider()) as url, gateway(folder, url, policy=LOG_ONLY, auditors=gone) as running:
        assert running.ask().status == 200
        return running.metrics()


def unscanned(folder: Path) -> str:
    """An answer in a coding that cannot be read, where no rule would withhold it."""
    squeezed = Stub(pieces=(b"\x01\x02\x03",), content_type=b"application/json", coding=b"x-unheard-of")
    with serving(squeezed) as url, gateway(folder, url, policy="observe-only") as running:
        assert running.ask().body == b"\x01\x02\x03"
        return running.metrics()


def unenforced(folder: Path) -> str:
    """A stream that the settings let pass, and that a rule denies."""
    stub = Stub()
    load(stub, phrase_case())
    with guarded(folder, stub, StreamWord.PASS) as running:
        assert running.ask(stream=True).body == phrase_case().payload
        return running.metrics()


def beyond_limits(folder: Path) -> str:
    """A stream that is longer than what is read: it ends as withheld, in the provider's shape, and the next request is served."""
    stub = Stub(pieces=phrase_case().events[:4], endless=True)
    with guarded(folder, stub, policy=SEEN, limits=LimitsPart(decoded_bytes=100_000)) as running:
        got = running.ask(stream=True)
        assert got.body.endswith(b"data: [DONE]\n\n")
        assert b"content_filter" in got.body[-2000:]
        assert stub.gone.wait(10)
        return running.metrics()


def upstream_cut(folder: Path) -> str:
    """A provider that breaks a stream off."""
    stub = Stub(pieces=phrase_case().events[:4], cut=True)
    with guarded(folder, stub, policy=SEEN) as running:
        running.ask(stream=True)
        return running.metrics()


def client_gone(folder: Path) -> str:
    """A client that leaves in the middle of a stream."""
    stub = Stub(pieces=phrase_case().events[:4], endless=True)
    with guarded(folder, stub, policy=SEEN) as running:
        with running.openai() as client:
            stream = client.chat.completions.create(**chat(HARMLESS, stream=True))
            next(iter(stream))
            stream.close()
        assert stub.gone.wait(20)
        until(lambda: "client_gone" in running.metrics())
        return running.metrics()


def policy_stale(folder: Path) -> str:
    """Policy files that no longer load."""
    with serving(provider()) as url, gateway(folder, url, policy=LOG_ONLY, reload_s=0.02) as running:
        (folder / "policies" / POLICY_FILE).write_text("forbid (", encoding="utf-8")
        until(lambda: "policy_reload" in running.metrics())
        assert running.ask().status == 200
        return running.metrics()


def unrecorded(folder: Path) -> str:
    """A session that is called by the very words that a claim quotes: the phase is left out of the record."""
    words = "I'm sorry, but I can't help with that."
    with serving(provider(ANSWER.replace(b"Paris.", words.encode()))) as url:
        with gateway(folder, url, policy="observe-only") as running:
            running.ask()
        (first,) = passports(folder)
        assert first.phases[1].withheld
        with gateway(folder, url, policy="observe-only") as running:
            for named in (words, "I'm sorry", "sorry, but I can't help", "I can't help with that", "can't help"):
                running.knock(CHAT, chat(HARMLESS), x_session_id=named)
            return running.metrics()


SCENES: dict[str, Callable[[Path], str]] = {
    scene.__name__: scene
    for scene in (
        *(failed_open, unscanned, unenforced, beyond_limits),
        *(upstream_cut, client_gone, policy_stale, unrecorded),
    )
}


def test_every_word_for_a_gap_has_its_scene() -> None:
    """The words that the figures know are those that are seen to occur here, none more and none less."""
    assert set(SCENES) == set(GAPS)


@pytest.mark.parametrize("what", GAPS)
def test_a_gap_is_on_record_and_counted(tmp_path: Path, what: str) -> None:
    """Each gap stands in the passport and, as often, in the figures under its own word; the log verifies."""
    figures = SCENES[what](tmp_path)
    found = [gap for passport in passports(tmp_path) for gap in passport.gaps]
    assert what in {gap.what for gap in found}
    assert what != "unenforced" or passports(tmp_path)[0].causes == ()
    for phase in ("request", "response"):
        count = sum(1 for gap in found if (gap.what, gap.phase) == (what, phase))
        line = f'demur_gaps_total{{phase="{phase}",what="{what}"}} {count}\n'
        assert (line in figures) is (count > 0)
    assert 'what="other"' not in figures
    assert verified(tmp_path).faults == ()


def test_an_answer_that_does_not_wait_is_on_record_in_the_end(tmp_path: Path) -> None:
    """With `async` answers go on while the store is down, which shows in the figures; what they said is written later."""
    store = StorePart(url=str(tmp_path / "log"), durability=Durability.ASYNC)
    with serving(provider()) as url, gateway(tmp_path, url, store=store) as running:
        with broken_store(tmp_path):
            asked = 1
            assert running.ask().status == 200
            until(lambda: running.knock("/readyz", method="GET").status == 503)
            for _ in range(2):
                assert running.ask().status == 200
        until(lambda: running.knock("/readyz", method="GET").status == 200)
        assert running.ask().status == 200
        figures = running.metrics()
    assert 'demur_gaps_total{phase="response",what="unrecorded"} 2\n' in figures
    # Those that waited in vain are lost; the one that did not wait is written as soon as the store can.
    assert 'demur_records_total{state="failed"} 2\n' in figures
    assert len(passports(tmp_path)) == asked + 1
    assert verified(tmp_path).faults == ()


@pytest.mark.parametrize(("mode", "status"), [(OnFailure.OPEN, 200), (OnFailure.CLOSED, 503)])
def test_a_store_that_hangs_is_not_waited_for(tmp_path: Path, mode: OnFailure, status: int) -> None:
    """A store that does not answer within its time is one that failed: the exchange goes on or is refused, by the setting."""
    more: dict[str, Any] = {"timeouts": TimeoutsPart(record_s=0.2), "failure": FailurePart(store=mode)}
    with serving(provider()) as url, gateway(tmp_path, url, **more) as running:
        with closing(sqlite3.connect(tmp_path / "log" / "log.db", isolation_level=None)) as held:
            held.execute("BEGIN IMMEDIATE")
            assert running.ask().status == status
            assert running.knock("/readyz", method="GET").json["troubles"] == ["store"]
            held.execute("ROLLBACK")
        # On a busy machine even a store that is free may take longer than that: ask until it did not.
        after: list[int] = []

        def is_back() -> bool:
            after.append(running.ask().status)
            return after[-1] == 200 and running.knock("/readyz", method="GET").status == 200

        until(is_back)
    # What was given up was still written, once the store could.
    assert len(passports(tmp_path)) == 1 + len(after)
    assert verified(tmp_path).faults == ()


CAUSES = [
    ("filter", "filtered", DeclineCause.PROVIDER_FILTER, "content_filter"),
    ("refuse", "refused", DeclineCause.PROVIDER_REFUSAL, "stop"),
    ("refuse-soft", "refused", DeclineCause.TEXT_REFUSAL, "stop"),
    ("fault-500", "failed", DeclineCause.PROVIDER_ERROR, None),
    ("empty", "empty", DeclineCause.EMPTY, "stop"),
]


def claims_of(passport: Passport) -> dict[str, object]:
    return {claim.name: claim.value for phase in passport.phases for claim in phase.claims}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("scenario", "outcome", "cause", "finish"), CAUSES)
def test_a_cause_is_the_same_everywhere(
    tmp_path: Path,
    simulator: RunningSimulator,
    scenario: str,
    outcome: str,
    cause: DeclineCause,
    finish: str | None,
    *,
    stream: bool,
) -> None:
    """Claims, passport and figures name one cause, the same; the provider's finish reason stands beside it as it came."""
    simulator.refuse_by(scenario)
    with gateway(tmp_path, simulator.url, policy="observe-only") as running:
        running.ask(stream=stream)
        figures = running.metrics()
    (found,) = passports(tmp_path)
    assert found.causes == (cause,)
    assert (claims_of(found)["refusal_outcome"], claims_of(found)["refusal_cause"]) == (outcome, cause)
    assert found.finish_reasons == (() if finish is None else (finish,))
    declines = [line for line in figures.splitlines() if line.startswith("demur_declines_total{")]
    assert declines == [f'demur_declines_total{{cause="{cause}"}} 1']
    assert f'demur_verdicts_total{{shape="openai_chat",outcome="{outcome}"}} 1\n' in figures


def test_a_providers_400_is_an_error_and_no_filter(tmp_path: Path) -> None:
    """A 400 that names no filter is the provider's error, with its status on record."""
    body = b'{"error":{"message":"bad","type":"invalid_request_error","param":null,"code":"invalid_value"}}'
    stub = Stub(pieces=(body,), status=400, content_type=b"application/json")
    with serving(stub) as url, gateway(tmp_path, url, policy="observe-only") as running:
        assert running.ask().status == 400
    (found,) = passports(tmp_path)
    assert (found.causes, found.upstream_status) == ((DeclineCause.PROVIDER_ERROR,), 400)
    assert claims_of(found)["refusal_cause"] == "provider_error"


@pytest.mark.parametrize("word", ["length", "content_filter", "tool_calls", "a-word-of-the-future", "STOP "])
def test_the_providers_word_is_kept_as_it_came(tmp_path: Path, word: str) -> None:
    """Whatever a provider says why it stopped is on record letter by letter."""
    body = json.dumps({**json.loads(ANSWER), "choices": [{**json.loads(ANSWER)["choices"][0], "finish_reason": word}]})
    with serving(provider(body.encode())) as url, gateway(tmp_path, url, policy="observe-only") as running:
        running.ask()
    (found,) = passports(tmp_path)
    assert found.finish_reasons == (word,)


def test_the_page_names_all_of_it() -> None:
    """Every figure, gap, cause and reason for a refusal that the gateway can count is explained on its page."""
    page = PAGE.read_text(encoding="utf-8")
    words = [*GAPS, *RejectReason, *DeclineCause, *(family.name for family in gateway_families())]
    assert [word for word in words if f"`{word}`" not in page] == []


def test_a_running_gateway_shows_only_figures_of_the_page(tmp_path: Path) -> None:
    """What is scraped has no family that is not explained."""
    with gateway(tmp_path, "http://127.0.0.1:9") as running:
        assert running.metrics().count("# TYPE ") == len(gateway_families())
