"""`demur simulate` as a command: it lists, serves until it is told to stop, and examines clients."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from tests.cli.calling import Capture, call, server_process

from demur.errors import UsageError

pytestmark = pytest.mark.heavy

EXAMPLES = Path(__file__).parents[2] / "examples" / "simulator"
ASKED: Any = [{"role": "user", "content": "Where is my refund?"}]


@contextmanager
def simulator(*words: str) -> Iterator[tuple[subprocess.Popen[str], openai.OpenAI]]:
    """Yield a simulator in a process of its own, and a client of it; told to end, it ends well."""
    with server_process("simulate", "--port", "0", *words) as (process, line):
        found = re.search(r"http://\S+/v1", line)
        assert found, line
        with openai.OpenAI(base_url=found[0], api_key="none", max_retries=5) as client:
            yield process, client
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def examined(capsys: Capture, *flags: str, client: Sequence[str]) -> tuple[int, dict[str, str]]:
    code = call("simulate", "--exam", "--json", *flags, "--", *client)
    return code, {row["scenario"]: row["coped"] for row in json.loads(capsys.readouterr().out)["results"]}


def test_the_scenarios_are_listed(capsys: Capture) -> None:
    """Every scenario stands on a line with what it is about."""
    assert call("simulate", "--list") == 0
    assert re.search(r"^filter-azure-400 +Azure's HTTP 400", capsys.readouterr().out, re.MULTILINE)


def test_it_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    """The address is said on standard error, replies follow the file and leave their truth, and SIGTERM is a good end."""
    log = tmp_path / "truth.jsonl"
    scenario = ("--scenario", str(EXAMPLES / "scenario.toml"), "--no-enable-jailbreak-detection")
    with simulator("--truth", str(log), *scenario) as (_, client):
        done = client.chat.completions.create(model="m", messages=ASKED)
    assert "helfen" in (done.choices[0].message.content or "")
    truth = json.loads(log.read_text(encoding="utf-8").splitlines()[-1])
    assert (truth["outcome"], truth["language"], truth["scenario"]) == ("refused", "de", "support-bot")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_truth_that_cannot_be_kept_is_told_and_harms_no_answer() -> None:
    """Where the log's disk is full, clients are still answered, and the loss is told once."""
    with simulator("--truth", "/dev/full") as (process, client):
        for _ in range(2):
            assert client.chat.completions.create(model="m", messages=ASKED).choices
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate()
    assert said == "demur: `/dev/full` loses truths: no space left on device\n"


def test_streams_end_before_the_server_does() -> None:
    """SIGTERM in the midst of a stream lets it come to its end, and the exit is a good one."""
    with simulator("--piece-ms", "20") as (process, client):
        stream = client.chat.completions.create(model="answer", messages=ASKED, stream=True)
        first = next(iter(stream))
        process.send_signal(signal.SIGTERM)
        ends = [chunk.choices[0].finish_reason for chunk in stream]
    assert first.choices[0].finish_reason is None
    assert ends[-1] == "stop"


def test_a_careful_client_passes(capsys: Capture, tmp_path: Path) -> None:
    """A client that reads refusals and finish reasons handles every shape, and JUnit has no failure."""
    report = tmp_path / "exam.xml"
    client = [sys.executable, str(EXAMPLES / "client.py")]
    code, coped = examined(capsys, "--junit", str(report), client=client)
    assert (code, set(coped.values())) == (0, {"handled"})
    assert 'failures="0"' in report.read_text(encoding="utf-8")


def test_a_naive_client_does_not(capsys: Capture) -> None:
    """A client that takes text for granted takes refusals for answers, full or empty, and crashes on blocks."""
    code, coped = examined(capsys, client=[sys.executable, str(EXAMPLES / "naive_client.py")])
    assert code == 1
    assert coped["refuse"] == coped["empty"] == "empty success"
    assert coped["filter-azure-400"] == "crashed"
    assert coped["refuse-soft"] == coped["filter"] == "taken as answer"


ASKING = """
import json, os, sys, threading, urllib.request as u
def ask():
    body = json.dumps({'model': 'm', 'messages': [{'role': 'user', 'content': 'hi'}]}).encode()
    q = u.Request(os.environ['OPENAI_BASE_URL'] + '/chat/completions', body, {'content-type': 'application/json'})
    try:
        return json.load(u.urlopen(q))['choices'][0]
    except OSError:
        return {'message': {'content': None, 'refusal': None}, 'finish_reason': 'error'}
"""


def test_a_client_that_asks_again_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Asking again until there is text is counted."""
    asking = f"{ASKING}\nfor _ in range(3):\n    text = ask()['message']['content']\n    if text: break\nprint(text)"
    code, coped = examined(capsys, client=[sys.executable, "-c", asking])
    assert code == 1
    assert coped["refuse"] == coped["filter-prompt"] == "retried"


def test_a_client_that_waits_for_ever_is_stopped_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    """A client that does not end on a refusal has hung, and the other cases are examined all the same."""
    waiting = f"{ASKING}\nsaid = ask()['message']\nif said['refusal']: threading.Event().wait()\nprint(said['content'])"
    code, coped = examined(capsys, "--exam-timeout", "6", client=[sys.executable, "-c", waiting])
    assert code == 1
    assert coped["refuse"] == coped["refuse-in-pieces"] == "hung"
    assert coped["refuse-soft"] == "taken as answer"


@pytest.mark.parametrize("words", ["Das Modell hat leider abgelehnt.", "STATUS=no-answer; try later", "拒绝了"])
def test_a_client_may_say_it_in_any_words(capsys: pytest.CaptureFixture[str], words: str) -> None:
    """A client that notices refusals and empty answers has coped, whatever its language, and whatever else varies."""
    telling = (
        f"{ASKING}\nimport time, uuid\nsaid, words = ask(), {words!r}\ntext = said['message']['content']\n"
        "print(time.time(), uuid.uuid4(), end=' ')\n"
        "print(text if text and said['finish_reason'] == 'stop' else words)"
    )
    _, coped = examined(capsys, client=[sys.executable, "-X", "utf8", "-c", telling])
    soft = {name: coped.pop(name) for name in ("refuse-soft", "refuse-redirect", "refuse-partial")}
    assert set(coped.values()) == {"handled"}
    assert set(soft.values()) == {"taken as answer"}


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--exam",), "belong together"),
        (("--", "true"), "belong together"),
        (("--exam", "--", sys.executable, "-c", "pass"), "asked the simulator nothing"),
        (("--exam", "--", sys.executable, "no_client.py"), "fails before it asks anything; it says `.*no_client"),
        (("--scenario", "nothing"), "no scenario"),
        (("--scenario", "refuse;rate=nan"), "a rate is a number from 0 to 1"),
        (("--truth", "/no/such/folder/x", "--port", "0"), "cannot be written"),
        (("--host", "256.0.0.1"), "cannot listen"),
    ],
)
def test_bad_calls_say_what_is_wrong(words: tuple[str, ...], what: str) -> None:
    """A call that cannot be is refused in one line."""
    with pytest.raises(UsageError, match=what):
        call("simulate", *words)
