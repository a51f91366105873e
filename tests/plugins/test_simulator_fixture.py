"""The fixture `demur_simulator` as a test meets it."""

from __future__ import annotations

import openai
import pytest

from demur.plugins.pytest import _demur_simulator_server, demur_simulator
from demur.simulate.server.run import RunningSimulator

__all__ = ["_demur_simulator_server", "demur_simulator"]


def ask(running: RunningSimulator) -> openai.types.chat.ChatCompletionMessage:
    with openai.OpenAI(base_url=running.openai_url, api_key="none", max_retries=0) as client:
        done = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hello"}])
    return done.choices[0].message


def test_it_answers_and_refuses_as_told(demur_simulator: RunningSimulator) -> None:
    """It answers harmless prompts, refuses by a scenario from then on, and tells the truth about each."""
    assert ask(demur_simulator).content
    demur_simulator.refuse_by("refuse")
    assert ask(demur_simulator).refusal
    assert [truth.outcome for truth in demur_simulator.truths] == ["refused"]


def test_every_test_finds_it_as_new(demur_simulator: RunningSimulator) -> None:
    """Neither the scenario nor the truths of another test are left."""
    assert demur_simulator.truths == []
    assert ask(demur_simulator).content


def test_the_environment_leads_every_client_here(demur_simulator: RunningSimulator) -> None:
    """Each provider's base URL is among the variables and leads to this server."""
    variables = demur_simulator.environment()
    urls = {name: value for name, value in variables.items() if value.startswith("http")}
    assert set(urls) == {
        "ANTHROPIC_BASE_URL",
        "AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
        "AZURE_OPENAI_ENDPOINT",
        "GOOGLE_GEMINI_BASE_URL",
        "OPENAI_BASE_URL",
    }
    assert all(url.startswith(demur_simulator.url) for url in urls.values())


def test_the_environment_leads_past_proxies(demur_simulator: RunningSimulator, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy of the user's is not asked for this server, and the user's own exceptions stay."""
    monkeypatch.setenv("NO_PROXY", "intranet.example")
    monkeypatch.delenv("no_proxy", raising=False)
    variables = demur_simulator.environment()
    assert variables["NO_PROXY"] == "intranet.example,127.0.0.1"
    assert variables["no_proxy"] == "127.0.0.1"
