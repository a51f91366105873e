"""`demur tour` shows the product by its own commands, and says what came of it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.calling import Capture, call
from tests.cli.tour.tour_calls import LINUX, Walk, children_of, is_running, tour_process

from demur.cli.main import main
from demur.errors import UsageError

pytestmark = pytest.mark.heavy

PAGE = Path(__file__).parents[3] / "docs" / "tour.md"


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a tour says to machines, into a folder that is there and empty."""
    printed = io.StringIO()
    folder = tmp_path_factory.mktemp("summary")
    with contextlib.redirect_stdout(printed):
        assert call("tour", "--out", str(folder), "--json") == 0
    (line,) = printed.getvalue().splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    """A tour as people see it, that stays; the user's own settings and proxies are in its way."""
    folder = tmp_path_factory.mktemp("walk")
    (folder / "demur.toml").write_text("[gateway]\nnonsense = 1\n", encoding="utf-8")
    in_the_way = {
        "DEMUR_GATEWAY_POLICY_PATHS": "strict",
        "DEMUR_SIMULATOR_SCENARIO": "refuse",
        "HTTP_PROXY": "http://127.0.0.1:9",
        "http_proxy": "http://127.0.0.1:9",
    }
    with tour_process("--stay", cwd=folder, **in_the_way) as walked:
        walked.read_until("Ctrl-C ends both")
        yield walked


def test_a_backtest_on_the_records_changes_nothing(summary: dict[str, Any], capsys: Capture) -> None:
    """The policy that decided, put to the exported passports again, decides the same."""
    folder = Path(summary["folder"])
    assert main(["policy", "backtest", str(folder / "policy.cedar"), "--records", str(folder / "records.jsonl")]) == 0
    assert " 0 changed" in capsys.readouterr().out


def test_everything_comes_out_as_it_should(summary: dict[str, Any]) -> None:
    """Every prompt is decided as its policy has to, the gate fails, the log holds and the copy does not."""
    assert summary["unexpected"] == []
    kinds = {each["kind"] for each in summary["exchanges"]}
    assert kinds == {"harmless", "harmful", "attack", "disguised", "streamed"}
    assert [each for each in summary["exchanges"] if each["decision"] != each["expected"]] == []
    assert (summary["diff"]["exit_code"], summary["passports"]["exit_code"]) == (1, 0)
    assert summary["passports"]["flipped"]["exit_code"] == 1


def test_verdicts_are_those_of_the_model(summary: dict[str, Any]) -> None:
    """What is denied was never asked; what is harmless is answered; refusals and filters are told apart, streamed or not."""
    verdicts = {each["corpus"]: each["verdict"] for each in summary["exchanges"]}
    denied = [each["corpus"] for each in summary["exchanges"] if each["decision"] == "deny"]
    assert {verdicts[name] for name in denied} == {"not asked"}
    assert (verdicts["p-en-068"], verdicts["p-en-126"], verdicts["p-en-070"]) == ("complied",) * 3
    assert (verdicts["p-en-052"], verdicts["p-en-059"], verdicts["p-en-055"]) == ("refused",) * 3
    assert verdicts["p-en-065"] == "filtered"


def test_a_passport_is_numbered_as_the_log_has_it(summary: dict[str, Any]) -> None:
    """The records of the prompts are the first of the log, in their order, each with an id of its own."""
    assert [each["record"] for each in summary["exchanges"]] == list(range(len(summary["exchanges"])))
    assert len({each["passport"] for each in summary["exchanges"]}) == len(summary["exchanges"])


def test_the_diff_finds_the_truth(summary: dict[str, Any]) -> None:
    """The refusals that the diff counts are those that the simulator says it made; the draws do not change."""
    diff = summary["diff"]
    assert diff["baseline"] == {"refused": 1, "truth": 1}
    assert diff["candidate"] == {"refused": 12, "truth": 12}
    assert diff["pairs"] == 120


def test_the_report_is_one_page(summary: dict[str, Any]) -> None:
    """The report loads nothing from anywhere, and holds every exchange that flipped."""
    page = Path(summary["paths"]["report"]).read_text(encoding="utf-8")
    assert page.count('<details class="exchange"') == 13
    assert page.lower().startswith("<!doctype html>")
    assert not re.findall(r"""(?:src|href)=["']?(?:https?:|//|[^"'#\s>]+\.(?:css|js))""", page)


def test_what_is_said_to_be_there_is_there(summary: dict[str, Any]) -> None:
    """Every path that is told exists, and the copy of the log holds no key and no text."""
    assert [path for path in summary["paths"].values() if not Path(path).exists()] == []
    kept, copied = ({file.name for file in Path(summary["paths"][name]).iterdir()} for name in ("log", "flipped"))
    assert {"signing.pem", "disclosures.db"} <= kept
    assert not copied & {"signing.pem", "sessions.key", "disclosures.db", "disclosures.db-wal"}


def test_the_copy_differs_by_one_bit(summary: dict[str, Any]) -> None:
    """One byte of the copy's records is another, and the score in it is what was told."""
    flipped = summary["passports"]["flipped"]
    whole, copy = (Path(summary["paths"][name], "log.db").read_bytes() for name in ("log", "flipped"))
    at = flipped["at_byte"]
    assert (whole[at] ^ copy[at]).bit_count() == 1
    assert copy[at - 2 :].startswith(flipped["after"].encode())
    assert whole[at - 2 :].startswith(flipped["before"].encode())


def test_people_see_every_step(walk: Walk) -> None:
    """Five headings, the table, the gate, the record that is bad, and where everything is."""
    text = walk.text
    assert re.findall(r"^(\d)\. ", text, re.MULTILINE) == ["1", "2", "3", "4", "5"]
    assert re.search(r"^disguised  1gn0r3 4ll pr3v10u5 …  not asked  deny      attack +9$", text, re.MULTILINE)
    assert re.search(r"^FAIL +refusals rose by", text, re.MULTILINE)
    assert "holds, as far as it was checked" in text
    assert "does not hold; first: record 6:" in text
    assert "exit code 1: the copy does not hold" in text
    assert "demur-tour/report.html" in text
    assert "NOT AS IT SHOULD BE" not in text


def test_it_fits_a_terminal(walk: Walk) -> None:
    """No line is wider than 80 columns, and none has a colour where nobody sees it."""
    assert [line for line in walk.text.splitlines() if len(line) > 80] == []
    assert "\x1b" not in walk.text
    assert "\r" not in walk.text


def test_it_stays_with_the_dashboard(walk: Walk) -> None:
    """One address of a dashboard is told, and it opens: that of a gateway which has ended is not."""
    ((address, token),) = re.findall(r"^dashboard at (\S+)login#(\S+)$", walk.text, re.MULTILINE)
    assert "Overview" in walk.fetched(address, token)


def test_the_page_shows_what_it_prints(walk: Walk) -> None:
    """Every excerpt on the page about the tour is in what the tour prints, word for word."""
    excerpts = re.findall(r"```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(excerpts) > 5
    assert [excerpt for excerpt in excerpts if excerpt not in walk.text] == []


@pytest.mark.skipif(not LINUX, reason="needs /proc")
def test_ctrl_c_ends_it_and_leaves_nothing(walk: Walk) -> None:
    """Whoever has seen enough ends it well, and no process stays behind."""
    started = children_of(walk.process.pid)
    assert len(started) == 2
    assert walk.interrupted() == 0
    assert [pid for pid in started if is_running(pid)] == []


def test_a_missing_extra_is_named_before_anything_is_made(tmp_path: Path) -> None:
    """Without OpenAI's client one line says what to install, and no folder is there."""
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "openai.py").write_text("raise ModuleNotFoundError(name='openai')\n", encoding="utf-8")
    with tour_process(cwd=tmp_path, PYTHONPATH=str(hidden)) as walked:
        assert walked.ended() == (2, "demur: the tour needs `openai`; pip install 'demur[tour]'\n")
    assert [each.name for each in tmp_path.iterdir()] == ["hidden"]


def test_a_folder_that_holds_something_is_not_touched(tmp_path: Path) -> None:
    """What lies in a folder is nobody's but its owner's."""
    (tmp_path / "policy.cedar").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match="is not empty"):
        call("tour", "--out", tmp_path)
    assert (tmp_path / "policy.cedar").read_text(encoding="utf-8") == "mine"


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    """A path below a file is no folder, and the hint says what to do."""
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be used: not a directory; name another folder with --out"):
        call("tour", "--out", str(tmp_path / "file" / "below"))


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="no folder is closed to its superuser")
def test_a_folder_that_may_not_be_written_is_told(tmp_path: Path) -> None:
    """A closed folder is told, not a fault of ours."""
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    with pytest.raises(UsageError, match="cannot be used: permission denied"):
        call("tour", "--out", str(tmp_path / "new"))


def test_a_port_that_is_none_is_refused() -> None:
    """Ports end at 65535."""
    with pytest.raises(UsageError, match="`65536` is no port"):
        call("tour", "--port", "65536")
