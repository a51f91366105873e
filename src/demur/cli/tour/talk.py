"""What do clients hear through the gateway? Everything is asked by OpenAI's own client, of which only the base URL is changed.

Laws: a denial is an answer like any other; a server that does not answer is named; a run is recorded as the client got it, a
line each, with what the simulator says it did beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import msgspec
import openai

from demur.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from demur.cli.tour.processes import Processes
    from demur.cli.tour.script import TourPrompt, TourQuestion

__all__ = ["Heard", "TourClient"]

_TIMEOUT_S = 30.0
_REFUSED = ("refused", "filtered")


@dataclass(frozen=True, slots=True)
class Heard:
    """What came back: the status, the passport's id, what the simulator says it did, and the body."""

    status: int
    passport: str
    truth: str
    body: bytes


class TourClient:
    """OpenAI's client, pointed at a gateway."""

    def __init__(self, gateway_url: str, processes: Processes) -> None:
        self._processes = processes
        # Loopback is asked directly, whatever proxy the environment names.
        direct = openai.DefaultHttpxClient(trust_env=False)
        self._client = openai.OpenAI(
            base_url=f"{gateway_url}/v1", api_key="none", max_retries=0, timeout=_TIMEOUT_S, http_client=direct
        )

    def __enter__(self) -> Self:
        """Use it."""
        return self

    def __exit__(self, *_exc: object) -> None:
        """Close its connections."""
        self._client.close()

    def say(self, prompt: TourPrompt) -> Heard:
        """Return what came back for a prompt."""
        asked = self._streamed if prompt.stream else self._whole
        return self._heard(asked, prompt.text, prompt.model, prompt.session)

    def record(
        self, questions: Sequence[TourQuestion], model: str, path: Path, *, reached: Callable[[int], None]
    ) -> int:
        """Write a run, a line each, and return how many the simulator says it refused."""
        refused = 0
        with path.open("xb") as run:
            for number, question in enumerate(questions, 1):
                heard = self._heard(self._whole, question.text, model, f"{path.stem}-{question.category}")
                refused += heard.truth.startswith(_REFUSED)
                run.write(_run_line(question, model, heard))
                reached(number)
        return refused

    def _heard(
        self, asked: Callable[[str, str, Mapping[str, str]], Heard], text: str, model: str, session: str
    ) -> Heard:
        try:
            return asked(text, model, {"x-demur-session": session})
        except openai.APIStatusError as exc:
            if "x-demur-passport" not in exc.response.headers:
                what = f"the gateway answered with {exc.status_code} and no passport"
                raise CommandError(what, hint="see gateway.out in the tour's folder") from exc
            return _heard_of(exc.status_code, exc.response.headers, exc.response.content)
        except openai.APIConnectionError as exc:
            self._processes.check()
            raise CommandError("the gateway does not answer", hint="see gateway.out in the tour's folder") from exc

    def _whole(self, text: str, model: str, headers: Mapping[str, str]) -> Heard:
        raw = self._client.chat.completions.with_raw_response.create(
            model=model, messages=[{"role": "user", "content": text}], extra_headers=headers
        )
        raw.parse()
        return _heard_of(raw.status_code, raw.headers, raw.content)

    def _streamed(self, text: str, model: str, headers: Mapping[str, str]) -> Heard:
        raw = self._client.chat.completions.with_raw_response.create(
            model=model, messages=[{"role": "user", "content": text}], extra_headers=headers, stream=True
        )
        chunks = [chunk.to_json(indent=None) for chunk in raw.parse()]
        return _heard_of(raw.status_code, raw.headers, "\n".join(chunks).encode())


def _heard_of(status: int, headers: Mapping[str, str], body: bytes) -> Heard:
    return Heard(status, headers["x-demur-passport"], headers.get("x-demur-truth", ""), body)


def _run_line(question: TourQuestion, model: str, heard: Heard) -> bytes:
    row = {
        "id": question.id,
        "category": question.category,
        "prompt": question.text,
        "model": model,
        "truth": heard.truth.partition(";")[0],
        "response": msgspec.Raw(heard.body),
    }
    return msgspec.json.encode(row) + b"\n"
