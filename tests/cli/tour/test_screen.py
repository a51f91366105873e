"""The tour fits a terminal, moves only on one, and is silent where a machine reads."""

from __future__ import annotations

import sys

import pytest
from tests.cli.calling import Capture, Terminal

from demur.cli.tour.tour import TourScreen


def test_a_long_command_goes_over_several_lines(capsys: Capture) -> None:
    """A command can be copied into a shell as it is shown, and fits 80 columns."""
    TourScreen(quiet=False).command(["demur", "diff", *["some-long-name.jsonl"] * 4, "with a space"], after="&")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.endswith("\\") for line in lines] == [True, False]
    assert lines[-1].endswith("'with a space' &")


def test_cells_are_shortened_and_say_so(capsys: Capture) -> None:
    """A cell that is too wide keeps its column and shows that it was cut."""
    TourScreen(quiet=False).table(("a", "b"), [("deny and more", "x")], (6, 3))
    assert capsys.readouterr().out.splitlines()[1] == "den…re  x"


def test_waiting_is_told_from_a_second_on_and_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal one line says what is waited for; the next thing printed takes its place."""
    shown, errors = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stdout", shown)
    monkeypatch.setattr(sys, "stderr", errors)
    times = iter([10.0, 10.5, 11.5])
    screen = TourScreen(quiet=False, clock=lambda: next(times))
    for _ in range(3):
        screen.waiting("asking", " 2 of 9")
    screen.note("done")
    assert errors.getvalue() == "\r  asking 2 of 9 … 2 s\x1b[K\r\x1b[K"
    assert shown.getvalue() == "done\n\n"


def test_words_have_colours_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decision is coloured where somebody sees it."""
    shown = Terminal()
    monkeypatch.setattr(sys, "stdout", shown)
    TourScreen(quiet=False).table(("decision",), [("deny",)], (8,))
    assert "\x1b[1;31mdeny    \x1b[0m" in shown.getvalue()


def test_a_quiet_screen_says_nothing(capsys: Capture) -> None:
    """Where a machine reads, nothing is printed, and without a terminal nothing moves."""
    screen = TourScreen(quiet=True)
    screen.title("1. A step")
    screen.note("why")
    screen.loading("loading")
    screen.waiting("asking")
    screen.done()
    assert capsys.readouterr() == ("", "")
