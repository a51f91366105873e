"""The tour's client, what the log says about its exchanges, and a copy of the log with one bit flipped."""

from __future__ import annotations

import base64
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import msgspec
import openai

from demur.errors import CommandError, StoreError
from demur.model.claim import Effect

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from demur.cli.tour.processes import Processes
    from demur.cli.tour.script import TourPrompt, TourQuestion

__all__ = ["Completion", "FlippedBit", "TourClient", "TourRecord", "copy_with_flipped_bit", "exported_records"]

_TIMEOUT_S = 30.0
_REFUSED = ("refused", "filtered")
_NOT_ASKED = "not asked"
# Neither a private key nor a text is in what one hands out.
_PRIVATE = ("signing.pem", "sessions.key", "disclosures.db*")
_SCORE = b'{"name":"adversarial_score","real":"0.9'
# Makes a 1 of a 9.
_BIT = 0x08


@dataclass(frozen=True, slots=True)
class Completion:
    """What came back: the status, the passport's id, what the simulator says it did, and the body."""

    status: int
    passport: str
    truth: str
    body: bytes


class TourClient:
    """OpenAI's client, pointed at a gateway."""

    def __init__(self, gateway_url: str, processes: Processes) -> None:
        self._processes = processes
        # Only the base URL differs from any other program that uses this client: that is what the tour shows.
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

    def say(self, prompt: TourPrompt) -> Completion:
        """Return what came back for a prompt."""
        return self._complete(prompt.text, prompt.model, prompt.session, stream=prompt.stream)

    def record(
        self, questions: Sequence[TourQuestion], model: str, path: Path, *, reached: Callable[[int], None]
    ) -> int:
        """Write a run as the client got it, a line each, and return how many the simulator says it refused."""
        refused = 0
        with path.open("xb") as run:
            for number, question in enumerate(questions, 1):
                completion = self._complete(question.text, model, f"{path.stem}-{question.category}")
                refused += completion.truth.startswith(_REFUSED)
                row = {
                    "id": question.id,
                    "category": question.category,
                    "prompt": question.text,
                    "model": model,
                    "truth": completion.truth.partition(";")[0],
                    "response": msgspec.Raw(completion.body),
                }
                run.write(msgspec.json.encode(row) + b"\n")
                reached(number)
        return refused

    def _complete(self, text: str, model: str, session: str, *, stream: bool = False) -> Completion:
        create = self._client.chat.completions.with_raw_response.create
        headers = {"x-demur-session": session}
        try:
            if stream:
                streamed = create(
                    model=model, messages=[{"role": "user", "content": text}], extra_headers=headers, stream=True
                )
                chunks = [chunk.to_json(indent=None) for chunk in streamed.parse()]
                return _completion(streamed.status_code, streamed.headers, "\n".join(chunks).encode())
            whole = create(model=model, messages=[{"role": "user", "content": text}], extra_headers=headers)
            whole.parse()
            return _completion(whole.status_code, whole.headers, whole.content)
        except openai.APIStatusError as exc:
            # A denial is a response like any other, and has its passport.
            if "x-demur-passport" not in exc.response.headers:
                what = f"the gateway answered with {exc.status_code} and no passport"
                raise CommandError(what, hint="see gateway.out in the tour's folder") from exc
            return _completion(exc.status_code, exc.response.headers, exc.response.content)
        except openai.APIConnectionError as exc:
            # A server that has ended is named before the gateway is blamed.
            self._processes.check()
            raise CommandError("the gateway does not answer", hint="see gateway.out in the tour's folder") from exc


def _completion(status: int, headers: Mapping[str, str], body: bytes) -> Completion:
    return Completion(status, headers["x-demur-passport"], headers.get("x-demur-truth", ""), body)


class _Envelope(msgspec.Struct):
    payload: str


class _Context(msgspec.Struct):
    claims: dict[str, object]


class _Rule(msgspec.Struct):
    id: str


class _Phase(msgspec.Struct):
    phase: str
    context: _Context
    decision: str
    rules: tuple[_Rule, ...] = ()


class _Predicate(msgspec.Struct):
    phases: tuple[_Phase, ...]


class _Entry(msgspec.Struct):
    index: int
    envelope: _Envelope
    predicate: _Predicate


class _Subject(msgspec.Struct):
    digest: dict[str, str]


class _Statement(msgspec.Struct):
    subject: tuple[_Subject, ...]


class _EntryKind(msgspec.Struct):
    kind: str


@dataclass(frozen=True, slots=True)
class TourRecord:
    """An entry: its place, the passport's id, the verdict on the response, the decision with its rules, and the signed bytes."""

    index: int
    passport: str
    verdict: str
    decision: str
    rules: tuple[str, ...]
    payload: bytes


def exported_records(path: Path) -> dict[str, TourRecord]:
    """Return the passports of an export, each under its id."""
    records = {}
    for line in path.read_bytes().splitlines():
        if msgspec.json.decode(line, type=_EntryKind).kind != "passport":
            continue
        entry = msgspec.json.decode(line, type=_Entry)
        payload, phases = base64.b64decode(entry.envelope.payload), entry.predicate.phases
        passport = msgspec.json.decode(payload, type=_Statement).subject[0].digest["saltedSha256"]
        claims = (phase.context.claims for phase in phases if phase.phase == "response")
        records[passport] = TourRecord(
            entry.index,
            passport,
            next((str(each.get("refusal_outcome", _NOT_ASKED)) for each in claims), _NOT_ASKED),
            max((Effect[phase.decision.upper()] for phase in phases), default=Effect.ALLOW).word,
            tuple(rule.id for phase in phases for rule in phase.rules),
            payload,
        )
    return records


@dataclass(frozen=True, slots=True)
class FlippedBit:
    """Which bit is another: in which record, at which byte of the file, and what the score was and now is."""

    record: int
    at_byte: int
    before: str
    after: str


def copy_with_flipped_bit(log: Path, copy: Path, record: TourRecord) -> FlippedBit:
    """Make a copy of a log in which the score of one attack has another first digit, and return what was changed."""
    # The log itself is never touched: only a copy of what one would hand out is tampered with.
    shutil.copytree(log, copy, ignore=shutil.ignore_patterns(*_PRIVATE))
    file = copy / "log.db"
    # What is still in SQLite's write-ahead log has checksums: a bit there would cut the log off, not change a record.
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray(file.read_bytes())
    inside = record.payload.find(_SCORE) + len(_SCORE) - 1
    at = data.find(record.payload[: inside + 1]) + inside
    if inside < len(_SCORE) - 1 or at < inside:
        raise StoreError(f"the score of record {record.index} is not where it was expected", hint="the tour ends here")
    data[at] ^= _BIT
    file.write_bytes(data)
    start = inside - len("0.")
    before = record.payload[start:].partition(b'"')[0].decode()
    return FlippedBit(record.index, at, before, f"0.1{before[3:]}")
