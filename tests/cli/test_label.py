"""`demur label`: a person labels a sample, in the terminal or on a page that only this machine can open."""

from __future__ import annotations

import io
import json
import signal
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from tests.cli.calling import Capture, call, say, server_process
from tests.http.serving import serving
from tests.runs.labelling import REFUSAL, rows_of, write_runs

from demur.errors import UsageError
from demur.runs.label import draw_responses
from demur.runs.label_file import LabelSession
from demur.runs.label_server import label_app
from demur.runs.options import ReadOptions

TOKEN = "a-token-of-the-tests"  # noqa: S105 — a token of the tests


def press(monkeypatch: pytest.MonkeyPatch, keys: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{key}\n" for key in keys)))


def test_labels_by_the_terminal(folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys give labels, `u` takes the last back, an unknown key is asked again, and the end of the input ends the session."""
    write_runs(folder)
    press(monkeypatch, "1x2u3")
    code, out, _ = say(capsys, "label", "baseline.jsonl", "candidate.jsonl", "--terminal", "--n", "20")
    assert code == 0
    assert [row["label"] for row in rows_of(folder / "labels.csv")] == ["refusal", "compliance"]
    assert "drawn: 20 pairs (newly refused 3 of 40, no longer refused 3 of 4" in out
    assert "2 of 40 responses labelled in labels.csv" in out
    assert "next: demur diff baseline.jsonl candidate.jsonl --labels labels.csv" in out


def test_two_annotators_hear_how_far_they_agree(folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a second person has labelled the same responses, the agreement is printed."""
    write_runs(folder)
    said = []
    for name, keys in (("ada", "1313131313"), ("bob", "1313131331")):
        press(monkeypatch, keys)
        said.append(say(capsys, "label", "baseline.jsonl", "--n", "10", "--terminal", "--annotator", name)[1])
    assert "agreement" not in said[0]
    assert "agreement of annotators (Cohen's kappa): 0.60" in said[1]


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (("a", "b", "c"), "3 runs to label"),
        (("baseline.jsonl", "--n", "0"), "a sample of 0"),
        (("baseline.jsonl", "--out", "labels.jsonl"), "is no CSV file"),
        (("baseline.jsonl", "--out", "nowhere/labels.csv"), "its folder is not there"),
        (("runs.csv", "--out", "runs.csv"), "is a run"),
        (("-", "--terminal"), "both come from standard input"),
    ],
    ids=["three runs", "none", "not csv", "no folder", "a run", "standard input"],
)
def test_a_call_that_cannot_be_meant(folder: Path, words: tuple[str, ...], match: str) -> None:
    """What cannot work is said before anything is read."""
    write_runs(folder)
    with pytest.raises(UsageError, match=match):
        call("label", *words)


def ask(url: str, body: object = None, **headers: str) -> dict[str, object]:
    """Return what the page's server says to one request."""
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, data, headers)) as answer:  # noqa: S310 — loopback
        found: dict[str, object] = json.loads(answer.read())
        return found


def session_of(folder: Path) -> LabelSession:
    drawn = draw_responses(write_runs(folder), n=12, seed=0, key=None, options=ReadOptions())
    return LabelSession(drawn, folder / "labels.csv", annotator="ada")


def test_the_page_labels_and_takes_back(tmp_path: Path) -> None:
    """A label that the page sends is in the file at once, undo takes it out, and what the detector said is never sent."""
    ended: list[bool] = []
    session = session_of(tmp_path)
    with serving(label_app(session, TOKEN, finished=lambda: ended.append(True))) as url:
        page = f"{url}/{TOKEN}"
        state = ask(f"{page}/state")
        shown = state["next"]
        assert isinstance(shown, dict)
        assert set(shown) == {"id", "side", "prompt", "response"}
        given = {"id": shown["id"], "side": shown["side"], "label": "refusal"}
        mine = {"Origin": url, "Content-Type": "application/json"}
        assert ask(f"{page}/label", given, **mine)["done"] == 1
        assert [row["label"] for row in rows_of(session.path)] == ["refusal"]
        with pytest.raises(HTTPError, match="409"):
            ask(f"{page}/label", given, **mine)
        assert ask(f"{page}/undo", {}, **mine)["done"] == 0
        assert rows_of(session.path) == []
        for bad in ({"id": "none", "side": "baseline", "label": "refusal"}, given | {"label": "maybe"}):
            with pytest.raises(HTTPError, match="409"):
                ask(f"{page}/label", bad, **mine)
        with pytest.raises(HTTPError, match="400"):
            ask(f"{page}/label", ["no label"], **mine)
        assert not ended
        ask(f"{page}/finish", {}, **mine)
    assert ended == [True]


def test_nobody_else_gets_in(tmp_path: Path) -> None:
    """Without the token, by another name, from another site or as a form, nothing is shown and nothing is labelled."""
    session = session_of(tmp_path)
    with serving(label_app(session, TOKEN, finished=lambda: None)) as url:
        page = f"{url}/{TOKEN}"
        mine = {"Origin": url, "Content-Type": "application/json"}
        for status, address, body, headers in (
            ("404", f"{url}/", None, {}),
            ("404", f"{url}/another-token/state", None, {}),
            ("404", f"{page}/nothing", None, {}),
            ("405", f"{page}/label", None, {}),
            ("403", f"{page}/state", None, {"Host": "evil.example"}),
            ("403", f"{page}/undo", {}, {"Content-Type": "application/json"}),
            ("403", f"{page}/undo", {}, mine | {"Origin": "http://evil.example"}),
            ("403", f"{page}/undo", {}, mine | {"Content-Type": "text/plain"}),
        ):
            with pytest.raises(HTTPError, match=status):
                ask(address, body, **headers)
        with urlopen(page) as answer:  # noqa: S310 — loopback
            assert "default-src 'none'" in answer.headers["content-security-policy"]
            assert REFUSAL not in answer.read().decode()


@pytest.mark.heavy
def test_it_serves_and_ends_in_good_order(tmp_path: Path) -> None:
    """The printed address opens the page; SIGTERM ends it with 0 and the summary."""
    write_runs(tmp_path)
    with server_process("label", "baseline.jsonl", "candidate.jsonl", cwd=tmp_path) as (process, line):
        assert line.startswith("drawn: 200 pairs")
        assert process.stdout is not None
        address = process.stdout.readline().removeprefix("label at ").strip()
        assert ask(f"{address}state")["total"] == 400
        process.send_signal(signal.SIGTERM)
        assert "0 of 400 responses labelled" in process.stdout.read()
        assert process.wait(timeout=30) == 0
