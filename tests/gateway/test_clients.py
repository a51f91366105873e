"""The providers' own clients, sync, async, streaming and parsing, see no difference but the decisions."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from pydantic import BaseModel
from tests.gateway.gatewaying import ATTACK, HARMLESS, Running, chat, gateway, passports, provider, verified
from tests.http.serving import serving

from demur.model.passport import DeclineCause, StreamMode
from demur.simulate.server.run import RunningSimulator

pytestmark = pytest.mark.heavy

PAGE = Path(__file__).parents[2] / "docs" / "gateway.md"
BLOCKS = re.findall(r"```py\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
MESSAGES: Any = chat(HARMLESS)["messages"]
ATTACKED: Any = chat(ATTACK)["messages"]


@pytest.fixture
def running(tmp_path: Path, simulator: RunningSimulator) -> Iterator[Running]:
    simulator.refuse_by("answer")
    with gateway(tmp_path, simulator.url) as found:
        yield found


class Capital(BaseModel):
    """What a client asks to be parsed."""

    city: str


def test_clients_as_the_page_shows_them(running: Running, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both providers' clients on the gateway's page get their answers through it, and the denied one its denial."""
    assert len(BLOCKS) == 2
    for block in BLOCKS:
        names: dict[str, Any] = {}
        exec(compile(block.replace("http://127.0.0.1:8080", running.url), PAGE.name, "exec"), names)  # noqa: S102 — our own page
        names["client"].close()
    assert "policy_denied attack" in capsys.readouterr().out
    assert len(passports(tmp_path)) == 3


def test_openai_chat(running: Running, simulator: RunningSimulator) -> None:
    """Plain, streamed, listed and denied: OpenAI's client reads or raises what it would at the provider."""
    direct = openai.OpenAI(base_url=simulator.openai_url, api_key="k", max_retries=0)
    with direct, running.openai() as client:
        for more in ({}, {"n": 2}):
            asked = chat(HARMLESS, **more)
            assert client.chat.completions.create(**asked) == direct.chat.completions.create(**asked)
            streams = [one.chat.completions.create(**asked, stream=True) for one in (client, direct)]
            assert list(streams[0]) == list(streams[1])
        assert client.models.list().data
        with pytest.raises(openai.PermissionDeniedError):
            client.chat.completions.create(**chat(ATTACK, stream=True))


def test_openai_parse(tmp_path: Path) -> None:
    """`.parse()` gives the object, and a denial before it."""
    body = b'{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"{\\"city\\": \\"Paris\\"}"},"finish_reason":"stop"}]}'
    with serving(provider(body)) as url, gateway(tmp_path, url) as running, running.openai() as client:
        done = client.chat.completions.parse(model="m", messages=MESSAGES, response_format=Capital)
        assert done.choices[0].message.parsed == Capital(city="Paris")
        with pytest.raises(openai.PermissionDeniedError):
            client.chat.completions.parse(model="m", messages=ATTACKED, response_format=Capital)


def test_openai_responses(running: Running) -> None:
    """The Responses API, plain and streamed; answers that refer back to others share their session."""
    with running.openai() as client:
        raw = client.responses.with_raw_response.create(model="gpt-x", input=HARMLESS)
        first = raw.parse()
        events = list(client.responses.create(model="gpt-x", input=HARMLESS, stream=True))
        assert events[-1].type == "response.completed"
        again = client.responses.with_raw_response.create(
            model="gpt-x", input="And of Spain?", previous_response_id=first.id
        )
        assert again.headers["x-demur-session"] == raw.headers["x-demur-session"]
        other = client.with_options(api_key="another-key").responses.with_raw_response.create(
            model="gpt-x", input="And of Spain?", previous_response_id=first.id
        )
        assert other.headers["x-demur-session"] != raw.headers["x-demur-session"]
        with pytest.raises(openai.PermissionDeniedError):
            client.responses.create(model="gpt-x", input=ATTACK)


def test_azure(running: Running, tmp_path: Path) -> None:
    """Azure's path names the model, which is what the record says was asked."""
    with running.azure() as client:
        assert client.chat.completions.create(model="my-deployment", messages=MESSAGES).choices[0].message.content
        stream = client.chat.completions.create(model="my-deployment", messages=MESSAGES, stream=True)
        assert [chunk for chunk in stream if chunk.choices]
        with pytest.raises(openai.PermissionDeniedError):
            client.chat.completions.create(model="my-deployment", messages=ATTACKED)
    assert {passport.model_asked for passport in passports(tmp_path)} == {"my-deployment"}


def test_anthropic(running: Running, tmp_path: Path) -> None:
    """Anthropic's client, plain and streamed; a denial is its own permission error."""
    with running.anthropic() as client:
        assert client.messages.create(model="claude-x", max_tokens=99, messages=MESSAGES).content
        with client.messages.stream(model="claude-x", max_tokens=99, messages=MESSAGES) as stream:
            assert stream.get_final_text()
        with pytest.raises(anthropic.PermissionDeniedError) as caught:
            client.messages.create(model="claude-x", max_tokens=99, messages=ATTACKED)
    body: Any = caught.value.body
    assert (body["error"]["type"], body["error"]["code"]) == ("permission_error", "policy_denied")
    plain, streamed, denied = passports(tmp_path)
    assert plain.phases[1].coverage is not None
    assert streamed.phases[1].coverage is not None
    assert (plain.phases[1].coverage.mode, streamed.phases[1].coverage.mode) == (StreamMode.WHOLE, StreamMode.PASSED)
    assert denied.causes == (DeclineCause.GATEWAY_BLOCK,)


def test_async_clients_at_once(running: Running, tmp_path: Path) -> None:
    """Many exchanges at once keep apart, and the log of all of them verifies."""

    async def ask_all() -> None:
        async with (
            openai.AsyncOpenAI(base_url=f"{running.url}/v1", api_key="k", max_retries=0) as one,
            anthropic.AsyncAnthropic(base_url=running.url, api_key="k", max_retries=0) as other,
        ):

            async def chats(number: int) -> None:
                headers = {"x-demur-session": f"s{number % 4}"}
                stream = await one.chat.completions.create(**chat(HARMLESS, stream=True), extra_headers=headers)
                assert [chunk async for chunk in stream]

            async def messages() -> None:
                done = await other.messages.create(model="claude-x", max_tokens=99, messages=MESSAGES)
                assert done.content

            await asyncio.gather(*(chats(n) for n in range(20)), *(messages() for _ in range(10)))

    asyncio.run(ask_all())
    found = passports(tmp_path)
    assert len(found) == 30
    assert sorted(p.seq for p in found if p.session == "s1") == [0, 1, 2, 3, 4]
    assert verified(tmp_path).faults == ()


def test_tools_and_pictures_pass(tmp_path: Path) -> None:
    """Tool calls, pictures and fields from the future go both ways as they are: the provider gets the client's bytes."""
    body = b'{"id":"c","object":"chat.completion","created":1,"model":"m","later":{"a":[1]},"choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{\\"x\\": 1}"}}]},"finish_reason":"tool_calls"}]}'
    asked = b'{ "model":"m",  "future": {"z": 1.50}, "messages":[{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}] }'
    stub = provider(body)
    with serving(stub) as url, gateway(tmp_path, url) as running:
        got = running.knock(
            "/v1/chat/completions?beta=1", asked, x_custom="kept", authorization="Bearer client-key", te="trailers"
        )
    assert got.body == body
    assert stub.asked == [asked]
    assert (stub.headers[0]["x-custom"], stub.headers[0]["authorization"]) == ("kept", "Bearer client-key")
    assert "te" not in stub.headers[0]
    (found,) = passports(tmp_path)
    assert found.finish_reasons == ("tool_calls",)
