"""Whole answers through the gateway: decided before the provider is asked, decided again, recorded, and passed untouched."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import openai
import pytest
from tests.gateway.gatewaying import ATTACK, HARMLESS, chat, gateway, passports, verified

from demur.gateway.settings import DenyStyle
from demur.model.claim import Effect, Phase
from demur.model.passport import DeclineCause, StreamMode
from demur.policy.files import PolicyFolder
from demur.simulate.server.run import running_simulator

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from demur.simulate.server.run import RunningSimulator

NO_REFUSALS = '@id("no-refusals") @decision("deny") @reason("refusals stay here")\nforbid (principal, action == Action::"response", resource) when { context.claims.model_refused };'


@pytest.fixture(scope="module")
def simulator() -> Iterator[RunningSimulator]:
    with running_simulator() as running:
        yield running


def asked(client: openai.OpenAI, text: str, **more: Any) -> Any:
    return client.chat.completions.create(**chat(text, **more))


def test_an_allowed_answer_is_the_providers_own(tmp_path: Path, simulator: RunningSimulator) -> None:
    """What is allowed comes back byte for byte, with the decision, the session and the passport's id in headers."""
    simulator.refuse_by("answer")
    direct = openai.OpenAI(base_url=simulator.openai_url, api_key="k", max_retries=0)
    with direct, gateway(tmp_path, simulator.url) as running, running.openai() as client:
        raw = client.chat.completions.with_raw_response.create(**chat(HARMLESS))
        assert raw.content == direct.chat.completions.with_raw_response.create(**chat(HARMLESS)).content
        assert raw.headers["x-demur-decision"] == "allow"
        assert "x-demur-truth" in raw.headers
        session, passport = raw.headers["x-demur-session"], raw.headers["x-demur-passport"]
    (found,) = passports(tmp_path)
    assert found.session == session
    assert found.request is not None
    assert found.request.digest == passport
    assert [phase.phase for phase in found.phases] == [Phase.REQUEST, Phase.RESPONSE]
    assert found.phases[1].coverage is not None
    assert found.phases[1].coverage.mode is StreamMode.WHOLE
    assert (found.finish_reasons, found.upstream_status, found.causes, found.gaps) == (("stop",), 200, (), ())


def test_a_denied_prompt_never_reaches_the_provider(tmp_path: Path, simulator: RunningSimulator) -> None:
    """A denial is a 403 in the provider's shape that names rule, reason and passport, and the provider is not asked."""
    simulator.refuse_by("answer")
    with (
        gateway(tmp_path, simulator.url) as running,
        running.openai() as client,
        pytest.raises(openai.PermissionDeniedError) as caught,
    ):
        asked(client, ATTACK)
    error: Any = caught.value.body
    assert error["code"] == "policy_denied"
    assert "attack" in [rule["id"] for rule in error["demur"]["rules"]]
    assert caught.value.response.headers["x-should-retry"] == "false"
    assert simulator.truths == []
    (found,) = passports(tmp_path)
    assert found.request is not None
    assert found.request.digest == error["demur"]["passport"]
    assert found.causes == (DeclineCause.GATEWAY_BLOCK,)
    assert found.phases[0].decision.effect is Effect.DENY
    assert (found.upstream_status, found.response) == (None, None)


def test_a_denial_can_be_a_refusal(tmp_path: Path, simulator: RunningSimulator) -> None:
    """By setting, a denial is a refusal of the provider's own shape, plain and streamed, that says whose it is."""
    with gateway(tmp_path, simulator.url, deny=DenyStyle.REFUSAL) as running, running.openai() as client:
        whole = asked(client, ATTACK)
        assert whole.choices[0].message.refusal.startswith("Withheld by policy")
        assert whole.choices[0].finish_reason == "content_filter"
        assert whole.model_extra["demur"]["reason"] == "policy_denied"
        chunks = list(asked(client, ATTACK, stream=True))
        assert chunks[-1].choices[0].finish_reason == "content_filter"
        with running.anthropic() as other:
            message = other.messages.create(
                model="claude-x", max_tokens=9, messages=[{"role": "user", "content": ATTACK}]
            )
        assert message.stop_reason == "refusal"


def test_a_warning_changes_nothing_but_headers(tmp_path: Path, simulator: RunningSimulator) -> None:
    """A warning names its rules in headers and leaves the body alone; the refusal's cause is on record."""
    simulator.refuse_by("refuse-soft")
    with gateway(tmp_path, simulator.url) as running, running.openai() as client:
        raw = client.chat.completions.with_raw_response.create(**chat(HARMLESS))
    assert (raw.headers["x-demur-decision"], raw.headers["x-demur-rules"]) == ("warn", "model-refused")
    (found,) = passports(tmp_path)
    assert found.causes == (DeclineCause.TEXT_REFUSAL,)
    phrase = json.loads(found.phases[1].context).get("claims", {}).get("refusal_phrase")
    assert phrase is None or "withheld" in phrase


def test_an_answer_can_be_denied(tmp_path: Path, simulator: RunningSimulator) -> None:
    """A rule over the answer withholds it whole; the record names our block and the model's own refusal apart."""
    simulator.refuse_by("refuse-soft")
    with (
        gateway(tmp_path, simulator.url, policy=NO_REFUSALS) as running,
        running.openai() as client,
        pytest.raises(openai.PermissionDeniedError) as caught,
    ):
        asked(client, HARMLESS)
    assert "refusals stay here" in str(caught.value)
    (found,) = passports(tmp_path)
    assert found.causes == (DeclineCause.GATEWAY_BLOCK, DeclineCause.TEXT_REFUSAL)
    assert found.response is not None


def test_a_stranger_can_check_the_log(tmp_path: Path, simulator: RunningSimulator) -> None:
    """What the gateway wrote verifies with the public keys, every decision replays, and a second run continues it."""
    simulator.refuse_by("refuse-soft")
    for _ in range(2):
        with gateway(tmp_path, simulator.url) as running, running.openai() as client:
            asked(client, HARMLESS)
            with pytest.raises(openai.PermissionDeniedError):
                asked(client, ATTACK)
    found = verified(tmp_path, PolicyFolder(["block-attacks"]).gate)
    assert found.faults == ()
    assert found.records == 5
    assert [p.seq for p in passports(tmp_path)] == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("scenario", "cause"),
    [
        ("refuse", DeclineCause.PROVIDER_REFUSAL),
        ("filter", DeclineCause.PROVIDER_FILTER),
        ("empty", DeclineCause.EMPTY),
    ],
)
def test_causes_stay_apart(tmp_path: Path, simulator: RunningSimulator, scenario: str, cause: DeclineCause) -> None:
    """A provider's refusal field, its filter and an empty answer are three causes."""
    simulator.refuse_by(scenario)
    with gateway(tmp_path, simulator.url) as running:
        running.knock("/v1/chat/completions", chat(HARMLESS))
        assert f'demur_declines_total{{cause="{cause}"}} 1' in running.metrics()
    (found,) = passports(tmp_path)
    assert found.causes == (cause,)
