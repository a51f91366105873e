"""The line that says how far it is."""

from __future__ import annotations

from tests.cli.calling import Capture

from demur.cli.options import ProgressLine, progress_line


def test_a_name_is_shown_before_there_is_anything_to_count(capsys: Capture) -> None:
    """What begins is named at once, nothing read adds nothing, and the line is taken away in the end."""
    line = ProgressLine()
    line.start("starting Spark on yarn", 0)
    assert capsys.readouterr().err == "\rstarting Spark on yarn\x1b[K"
    line.read(0)
    line.rows(0)
    assert capsys.readouterr().err == ""
    line.close()
    assert capsys.readouterr().err == "\r\x1b[K"


def test_nobody_is_told_where_nobody_watches() -> None:
    """Where standard error is no terminal there is no line."""
    assert progress_line() is None
