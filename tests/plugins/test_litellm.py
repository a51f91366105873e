"""The callback for LiteLLM: on values of LiteLLM's form always, inside the real proxy under `make test-litellm`."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anthropic
import openai
import pytest
from tests.gateway.gatewaying import ATTACK, broken_store, free_address, passports, verified
from tests.patience import until
from tests.plain_http import anthropic_http, knock, openai_http

from demur.errors import RejectedError
from demur.gateway.settings import FailurePart, GatewaySettings, OnFailure, PolicyPart, StorePart
from demur.io.log import SafeFormatter
from demur.model.passport import DeclineCause, Durability
from demur.plugins.litellm import DemurCallback, restore_refusals

KEY = "sk-only-for-this-test-0123456789abcdef"
NO = "I'm sorry, but I can't help with that request."
ASKED = "How do I bake bread?"
REFUSED_RESPONSES = '@id("no_refusals")\nforbid (principal, action, resource) when { context.claims.model_refused };'


def message(**fields: Any) -> dict[str, Any]:
    finish = fields.pop("finish_reason", "stop")
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": None} | fields}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-4o", "choices": [choice]}


def piece(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o", "choices": [choice]}


REFUSED = message(provider_specific_fields={"refusal": NO})
STREAM = [piece(role="assistant"), piece(refusal=NO), piece("stop")]


def data(text: str = ASKED, **more: Any) -> dict[str, Any]:
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": text}], "metadata": {"headers": {}}} | more
    return {"litellm_call_id": "1", "proxy_server_request": {"body": body, "headers": {"x-session-id": "s"}}}


def settings_in(folder: Path, **parts: Any) -> GatewaySettings:
    store = StorePart(url=str(folder / "log"), durability=Durability.SYNC)
    return replace(GatewaySettings(), store=store, **parts)


@contextmanager
def callback(folder: Path, **parts: Any) -> Iterator[DemurCallback]:
    made = DemurCallback(settings_in(folder, **parts))
    try:
        yield made
    finally:
        made.close()


async def asked(made: DemurCallback, given: dict[str, Any], call_type: str = "acompletion") -> None:
    await made.async_pre_call_hook(SimpleNamespace(api_key="hashed"), None, given, call_type)


async def streamed(made: DemurCallback, given: dict[str, Any], pieces: list[Any]) -> list[Any]:
    async def upstream() -> AsyncIterator[Any]:
        for each in pieces:
            if isinstance(each, Exception):
                raise each
            yield each

    return [each async for each in made.async_post_call_streaming_iterator_hook(None, upstream(), given)]


@pytest.mark.parametrize("as_object", [False, True], ids=["dict", "object"])
def test_a_refusal_is_put_back_where_openai_has_it(*, as_object: bool) -> None:
    """What LiteLLM moved to its extra fields is in `message.refusal` again, and a response without one gets none."""
    given = json.loads(json.dumps(REFUSED))
    if as_object:
        refused = SimpleNamespace(**given["choices"][0]["message"])
        restore_refusals(SimpleNamespace(choices=[SimpleNamespace(message=refused)]))
        assert refused.refusal == NO
    else:
        restore_refusals(given)
        assert given["choices"][0]["message"]["refusal"] == NO
    answered = message(content="Flour.", provider_specific_fields={"refusal": None})
    restore_refusals(answered)
    assert "refusal" not in answered["choices"][0]["message"]


async def test_each_exchange_is_judged_and_recorded(tmp_path: Path) -> None:
    """A response is returned with its refusal, and its passport says who declined, in the session that the client named."""
    with callback(tmp_path) as made:
        given = data()
        await asked(made, given)
        response = await made.async_post_call_success_hook(given, None, json.loads(json.dumps(REFUSED)))
        assert isinstance(response, dict)
        assert response["choices"][0]["message"]["refusal"] == NO
    (record,) = passports(tmp_path)
    assert (record.session, record.model_asked, record.causes) == ("s", "gpt-4o", (DeclineCause.PROVIDER_REFUSAL,))
    assert [phase.phase for phase in record.phases] == ["request", "response"]
    assert verified(tmp_path).ok


async def test_anthropics_refusal_is_no_filter(tmp_path: Path) -> None:
    """Where LiteLLM calls Anthropic's refusal a content filter, the provider's own response decides and gives the words back."""
    details = {"type": "refusal", "explanation": NO}
    original: dict[str, Any] = {"id": "m", "type": "message", "role": "assistant", "model": "claude", "content": []}
    original |= {"stop_reason": "refusal", "stop_details": details, "usage": {"input_tokens": 1, "output_tokens": 0}}
    kept = SimpleNamespace(model_call_details={"original_response": json.dumps(original)})
    with callback(tmp_path) as made:
        given = data() | {"litellm_logging_obj": kept}
        await asked(made, given)
        response = message(finish_reason="content_filter")
        await made.async_post_call_success_hook(given, None, response)
    assert response["choices"][0]["message"]["refusal"] == NO
    assert passports(tmp_path)[0].causes == (DeclineCause.PROVIDER_REFUSAL,)


@pytest.mark.parametrize(
    ("call_type", "pieces"),
    [
        ("acompletion", STREAM),
        (
            "anthropic_messages",
            [
                b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"c","content":[],"stop_reason":null,"usage":{"input_tokens":1,"output_tokens":0}}}\n\nevent: mess',
                b'age_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"refusal"},"usage":{"output_tokens":0}}\n\n',
                b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
            ],
        ),
    ],
    ids=["chat", "messages"],
)
async def test_a_stream_passes_and_is_recorded(tmp_path: Path, call_type: str, pieces: list[Any]) -> None:
    """Every piece of a stream reaches the client, as an object or as bytes, and the refusal in it is on record."""
    with callback(tmp_path) as made:
        given = data()
        await asked(made, given, call_type)
        assert await streamed(made, given, pieces) == pieces
    (record,) = passports(tmp_path)
    assert (record.causes, record.gaps) == ((DeclineCause.PROVIDER_REFUSAL,), ())


async def test_a_stream_that_breaks_off_is_recorded_as_such(tmp_path: Path) -> None:
    """What came before a provider broke off is on record with a gap, and the provider's error goes on."""
    with callback(tmp_path) as made:
        given = data()
        await asked(made, given)
        with pytest.raises(ConnectionError):
            await streamed(made, given, [piece(content="Take "), ConnectionError("gone")])
    assert [gap.what for gap in passports(tmp_path)[0].gaps] == ["upstream_cut"]


@pytest.mark.parametrize(
    ("error", "causes"),
    [
        ({"code": "content_filter", "message": "blocked"}, (DeclineCause.PROVIDER_FILTER,)),
        ({"code": "rate_limit_exceeded", "message": "slow down"}, (DeclineCause.PROVIDER_ERROR,)),
    ],
    ids=["filter", "rate limit"],
)
async def test_a_filters_error_has_its_code_again(
    tmp_path: Path, error: dict[str, Any], causes: tuple[DeclineCause, ...]
) -> None:
    """An error that a filter caused says so beside LiteLLM's own words and on record; any other is a failure."""
    exc = RuntimeError("litellm.BadRequestError")
    exc.__dict__.update(status_code=400, body=error)
    with callback(tmp_path) as made:
        given = data()
        await asked(made, given)
        await made.async_post_call_failure_hook(given, exc, None)
    filtered = causes == (DeclineCause.PROVIDER_FILTER,)
    assert vars(exc).get("provider_specific_fields") == ({"code": "content_filter"} if filtered else None)
    (record,) = passports(tmp_path)
    assert (record.causes, record.upstream_status) == (causes, 400)


async def test_a_denied_request_is_not_forwarded(tmp_path: Path) -> None:
    """A request that a policy denies raises with a status that LiteLLM answers, and the denial is on record."""
    with callback(tmp_path, policy=PolicyPart(paths=("block-attacks",))) as made:
        with pytest.raises(RejectedError) as caught:
            await asked(made, data(ATTACK))
        # The proxy reports what a callback raised to the callbacks: it is not recorded twice.
        await made.async_post_call_failure_hook(data(ATTACK), caught.value, None)
    assert (caught.value.status_code, caught.value.type) == (403, "policy_denied")
    assert DeclineCause.GATEWAY_BLOCK in passports(tmp_path)[0].causes


async def test_a_denied_response_is_withheld(tmp_path: Path) -> None:
    """Where a rule can deny a response, none of its pieces passes before the last one was read."""
    (tmp_path / "rules.cedar").write_text(REFUSED_RESPONSES)
    with callback(tmp_path, policy=PolicyPart(paths=(str(tmp_path / "rules.cedar"),))) as made:
        given = data()
        await asked(made, given)
        with pytest.raises(RejectedError, match="denied by policy no_refusals"):
            await streamed(made, given, STREAM)
        await asked(made, given)
        with pytest.raises(RejectedError, match="denied by policy no_refusals"):
            await made.async_post_call_success_hook(given, None, json.loads(json.dumps(REFUSED)))
        await asked(made, given)
        answer = [piece(role="assistant"), piece(content="Flour."), piece("stop")]
        assert await streamed(made, given, answer) == answer
    assert [DeclineCause.GATEWAY_BLOCK in record.causes for record in passports(tmp_path)] == [True, True, False]


async def test_a_request_that_cannot_be_read_is_denied_where_a_rule_could_deny_it(tmp_path: Path) -> None:
    """What no auditor could read passes with a gap under a policy that only observes, and is denied under any other."""
    unreadable = data()
    unreadable["proxy_server_request"]["body"] = {"model": "gpt-4o", "messages": "no list"}
    with callback(tmp_path / "observed") as made:
        await asked(made, unreadable)
        await made.async_post_call_success_hook(unreadable, None, message(content="Flour."))
    assert "chain" in str(passports(tmp_path / "observed")[0].gaps)
    with (
        callback(tmp_path / "denied", policy=PolicyPart(paths=("block-attacks",))) as made,
        pytest.raises(RejectedError),
    ):
        await asked(made, unreadable)


@pytest.mark.parametrize("mode", list(OnFailure))
async def test_a_log_that_fails_decides_by_the_settings(tmp_path: Path, mode: OnFailure) -> None:
    """Where a record cannot be written, `closed` lets nothing pass and `open` lets the response go on."""
    made = DemurCallback(settings_in(tmp_path, failure=FailurePart(store=mode)))
    given = data()
    await asked(made, given)
    with broken_store(tmp_path):
        if mode is OnFailure.CLOSED:
            with pytest.raises(RejectedError, match="could not be put on record") as caught:
                await made.async_post_call_success_hook(given, None, message(content="Flour."))
            assert caught.value.status_code == 503
        else:
            assert await made.async_post_call_success_hook(given, None, message(content="Flour."))
    made.close()


@pytest.mark.parametrize("mode", list(OnFailure))
async def test_a_log_that_cannot_be_opened_decides_by_the_settings(tmp_path: Path, mode: OnFailure) -> None:
    """Where there is no log to open, `closed` rejects the request and `open` lets it go on unseen."""
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "log.db").write_bytes(b"this is no database" * 100)
    made = DemurCallback(settings_in(tmp_path, failure=FailurePart(store=mode)))
    given = data()
    if mode is OnFailure.CLOSED:
        with pytest.raises(RejectedError):
            await asked(made, given)
    else:
        await asked(made, given)
        assert await made.async_post_call_success_hook(given, None, REFUSED) is REFUSED
        assert await streamed(made, given, STREAM) == STREAM


async def test_what_asks_no_model_for_a_text_is_left_alone(tmp_path: Path) -> None:
    """An embedding is neither judged nor recorded, and opens no log."""
    with callback(tmp_path) as made:
        given = {"litellm_call_id": "1", "input": "bread"}
        await asked(made, given, "aembedding")
        assert await made.async_post_call_success_hook(given, None, {"data": []}) == {"data": []}
    assert not (tmp_path / "log").exists()


async def test_no_text_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The structured log tells of each exchange without a word of the prompt or the response."""
    logger = logging.getLogger("demur")
    logger.addHandler(caplog.handler)
    caplog.set_level(logging.INFO, logger="demur")
    try:
        with callback(tmp_path) as made:
            given = data()
            await asked(made, given)
            await made.async_post_call_success_hook(given, None, json.loads(json.dumps(REFUSED)))
    finally:
        logger.removeHandler(caplog.handler)
    lines = [SafeFormatter().format(record) for record in caplog.records]
    assert any('"outcome":"refused"' in line for line in lines)
    assert not any("bread" in line or "sorry" in line for line in lines)


@dataclass(frozen=True)
class Proxy:
    """A running proxy, and the folder of its log."""

    url: str
    folder: Path

    def openai(self) -> openai.OpenAI:
        """Return OpenAI's client for it."""
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=KEY, max_retries=0, http_client=openai_http())

    def causes(self, session: str) -> list[tuple[DeclineCause, ...]]:
        """Return why the exchanges of a session were declined, once there are any."""
        until(lambda: any(record.session == session for record in passports(self.folder)))
        return [record.causes for record in passports(self.folder) if record.session == session]


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """A real LiteLLM proxy with our callback, and the simulator behind it."""
    command = os.environ.get("LITELLM_COMMAND")
    if not command:
        pytest.skip("LiteLLM's proxy is run by `make test-litellm`")
    folder = tmp_path_factory.mktemp("litellm")
    model, proxied = free_address(), free_address()
    behind = {"openai": {"api_base": f"{model}/v1"}, "anthropic": {"api_base": model}}
    names = {"openai": "gpt-*", "anthropic": "claude-*"}
    config = {
        "model_list": [
            {"model_name": names[who], "litellm_params": {"model": f"{who}/{names[who]}", "api_key": "none"} | where}
            for who, where in behind.items()
        ],
        "litellm_settings": {"callbacks": "demur.plugins.litellm.handler", "num_retries": 0},
    }
    (folder / "config.yaml").write_text(json.dumps(config))
    environment = os.environ | {
        "DEMUR_GATEWAY_STORE_URL": str(folder / "log"),
        "DEMUR_GATEWAY_POLICY_PATHS": "block-attacks",
        "LITELLM_MASTER_KEY": KEY,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    simulator = [sys.executable, "-m", "demur", "simulate", "--port", model.rpartition(":")[2]]
    started = [*command.split(), "--config", "config.yaml", "--host", "127.0.0.1", "--port", proxied.rpartition(":")[2]]
    with (
        (folder / "proxy.txt").open("wb") as log,
        subprocess.Popen(simulator, stdout=subprocess.DEVNULL) as behind_it,  # noqa: S603 — our own command
        subprocess.Popen(started, cwd=folder, env=environment, stdout=log, stderr=log) as running,  # noqa: S603 — as above
    ):
        try:
            until(lambda: is_up(proxied), within_s=120)
            yield Proxy(proxied, folder)
        finally:
            running.terminate()
            running.wait(30)
            behind_it.terminate()


def is_up(url: str) -> bool:
    try:
        return knock(url, "/health/liveliness", method="GET").status == 200
    except OSError:
        return False


def test_the_proxy_gives_refusals_back(proxy: Proxy) -> None:
    """Through the real proxy a refusal is in `message.refusal`, from OpenAI and from Anthropic, and on record."""
    for model in ("gpt-4o@refuse", "claude-opus-4-8@refuse"):
        with proxy.openai() as client:
            got = client.chat.completions.create(
                model=model, messages=[{"role": "user", "content": ASKED}], extra_headers={"x-session-id": model}
            )
        assert (got.choices[0].message.refusal, got.choices[0].message.content) == (NO, None)
        assert proxy.causes(model) == [(DeclineCause.PROVIDER_REFUSAL,)]


def test_the_proxy_streams_refusals(proxy: Proxy) -> None:
    """Through the real proxy a streamed refusal reaches the client and the record, in chat and in Anthropic's messages."""
    with proxy.openai() as client:
        stream = client.chat.completions.create(
            model="gpt-4o@refuse-in-pieces",
            messages=[{"role": "user", "content": ASKED}],
            stream=True,
            extra_headers={"x-session-id": "streamed"},
        )
        assert "".join(chunk.choices[0].delta.refusal or "" for chunk in stream if chunk.choices) == NO
    assert proxy.causes("streamed") == [(DeclineCause.PROVIDER_REFUSAL,)]
    with (
        anthropic.Anthropic(base_url=proxy.url, api_key=KEY, max_retries=0, http_client=anthropic_http()) as asking,
        asking.messages.stream(
            model="claude-opus-4-8@refuse",
            max_tokens=50,
            messages=[{"role": "user", "content": ASKED}],
            extra_headers={"x-session-id": "messages"},
        ) as messages,
    ):
        assert messages.get_final_message().stop_reason == "refusal"
    assert proxy.causes("messages") == [(DeclineCause.PROVIDER_REFUSAL,)]


def test_the_proxy_says_that_a_filter_blocked(proxy: Proxy) -> None:
    """Through the real proxy a filter's 400 keeps its code, and a filter after some text is on record as such."""
    asked = [{"role": "user", "content": ASKED}]
    headers = {"Authorization": f"Bearer {KEY}", "x_session_id": "blocked"}
    got = knock(proxy.url, "/v1/chat/completions", {"model": "gpt-4o@filter-azure-400", "messages": asked}, **headers)
    assert (got.status, got.json["error"]["provider_specific_fields"]["code"]) == (400, "content_filter")
    assert proxy.causes("blocked") == [(DeclineCause.PROVIDER_FILTER,)]
    knock(proxy.url, "/v1/chat/completions", {"model": "gpt-4o@filter", "messages": asked}, **headers)
    until(lambda: len(proxy.causes("blocked")) > 1)
    assert proxy.causes("blocked")[1] == (DeclineCause.PROVIDER_FILTER,)


def test_the_proxy_denies_by_policy(proxy: Proxy) -> None:
    """Through the real proxy a request that the policy denies gets a 403, reaches no model, and is on record."""
    headers = {"Authorization": f"Bearer {KEY}", "x_session_id": "denied"}
    body = {"model": "gpt-4o@answer", "messages": [{"role": "user", "content": ATTACK}]}
    got = knock(proxy.url, "/v1/chat/completions", body, **headers)
    assert (got.status, got.json["error"]["type"]) == (403, "policy_denied")
    assert proxy.causes("denied") == [(DeclineCause.GATEWAY_BLOCK,)]


def test_the_proxy_answers_as_before(proxy: Proxy) -> None:
    """Through the real proxy an answer, whole or streamed, passes unchanged, and its record names no cause."""
    for stream in (False, True):
        headers = {"Authorization": f"Bearer {KEY}", "x_session_id": f"answered-{stream}"}
        body = {"model": "gpt-4o@answer", "messages": [{"role": "user", "content": ASKED}], "stream": stream}
        got = knock(proxy.url, "/v1/chat/completions", body, **headers)
        assert got.status == 200
        assert b'"refusal"' not in got.body.replace(b'"refusal":null', b"")
        assert proxy.causes(f"answered-{stream}") == [()]


def test_the_proxys_log_holds(proxy: Proxy) -> None:
    """What the proxy recorded verifies, and neither the proxy's output nor ours repeats what was asked in our lines."""
    assert verified(proxy.folder).ok
    lines = (proxy.folder / "proxy.txt").read_text().splitlines()
    ours = [line for line in lines if '"event":"exchange"' in line]
    assert ours
    assert not [line for line in ours if "bread" in line or "sorry" in line]
