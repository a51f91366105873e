"""`auditors.yaml`: the seed's file as it is, ours with its terms, and every mistake refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from demur.audit.breaker import BreakerSettings
from demur.audit.config import Sent, importing, load_class, parse_chain, port_of_auditor, read_chain
from demur.errors import DemurError, EmptyInputError, InputError, UsageError
from demur.model.claim import FailureMode, Phase

SEED = """
chain:
  - name: safety-checker
    image: "lucid/safety-refusals:v1"
    port: 8085
"""


def test_the_seeds_file_works_as_it_is() -> None:
    """A bare image and port is loopback at that port; the tag is the version; failures are closed."""
    (auditor,) = parse_chain(SEED).auditors
    assert (auditor.name, auditor.url, auditor.version) == ("safety-checker", "http://127.0.0.1:8085", "v1")
    assert {auditor.mode(phase) for phase in Phase} == {FailureMode.CLOSED}
    assert [phase for phase in Phase if auditor.asked_in(phase)] == [Phase.REQUEST, Phase.RESPONSE]
    assert auditor.breaker == BreakerSettings(5, 30.0)


def test_every_term_is_read() -> None:
    """Each field of the file reaches the settings, in our units."""
    chain = parse_chain("""
budget_ms: 500
chain:
  - name: a
    description: the first
    url: https://auditor.example:8443/v2/
    env: {LEVEL: high}
    labels: [x]
    phases: [response]
    timeout_ms: 250
    on_error: {request: open, response: warn}
    send: text
    breaker: {failures: 2, reset_ms: 1000}
    vocabulary: {risk: score_normalized}
  - name: b
    python: package.module:Class
    after: a
    blocking: true
    config: {limit: 3}
    on_error: open
  - name: c
    python: safety-checker
    after: [a, b]
    version: "7"
    breaker: false
""")
    assert [[a.name for a in stage] for stage in chain.stages] == [["a"], ["b"], ["c"]]
    assert chain.budget_s == 0.5
    a, b, c = chain.auditors
    assert (a.url, a.timeout_s, a.sent) == ("https://auditor.example:8443/v2", 0.25, Sent.TEXT)
    assert (a.mode(Phase.REQUEST), a.mode(Phase.RESPONSE)) == (FailureMode.OPEN, FailureMode.WARN)
    assert a.mode(Phase.ARTIFACT) is FailureMode.CLOSED
    assert a.breaker == BreakerSettings(2, 1.0)
    assert (b.blocking, b.config, b.breaker) == (True, {"limit": 3}, BreakerSettings())
    assert (c.version, c.breaker, c.url) == ("7", None, None)


def test_stages_are_as_early_as_they_can_be() -> None:
    """Auditors that wait for nobody share the first stage, wherever they stand in the file."""
    chain = parse_chain("chain: [{name: b, port: 2, after: a}, {name: a, port: 1}, {name: c, port: 3}]")
    assert [[a.name for a in stage] for stage in chain.stages] == [["a", "c"], ["b"]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("chain: []", "no auditor"),
        ("chain:", "no auditor"),
        ("{}", "no auditor"),
        ("", "no chain"),
        ("chain: [", "not YAML"),
        ("chain: [{port: 1}]", "name"),
        ("chain: [{name: a}]", "no place to ask it"),
        ("chain: [{name: a, image: x}]", "no place to ask it"),
        ("chain: [{name: '', port: 1}]", "without a name"),
        ("chain: [{name: a, port: 1, on_eror: open}]", "on_eror"),
        ("chain: [{name: a, port: 1, on_error: maybe}]", "maybe"),
        ("chain: [{name: a, port: 1, on_error: {lunch: open}}]", "lunch"),
        ("chain: [{name: a, port: 1, timeout_ms: 0}]", "timeout_ms"),
        ("budget_ms: -1\nchain: [{name: a, port: 1}]", "budget_ms"),
        ("chain: [{name: a, port: 1}, {name: a, port: 2}]", "two auditors"),
        ("chain: [{name: a, port: 1, after: b}]", "not in the chain"),
        ("chain: [{name: a, port: 1, after: b}, {name: b, port: 2, after: a}]", "after each other"),
        ("chain: [{name: a, python: 'm:C', port: 1}]", "keep one"),
        ("chain: [{name: a, python: 'm:C', url: 'http://h'}]", "keep one"),
        ("chain: [{name: a, url: 'file:///etc/passwd'}]", "no address"),
        ("chain: [{name: a, url: 'http://h/?q'}]", "no address"),
        ("chain: [{name: a, url: 'http://host:65536'}]", "is no address of an auditor"),
        ("chain: [{name: a, url: 'http://host:x'}]", "is no address of an auditor"),
        ("chain: [{name: a, url: 'http://[::1'}]", "is no address of an auditor"),
        *((f"chain: [{{name: a, port: {port}}}]", "is no address of an auditor") for port in (99999, 0, -1)),
        ("chain: [{name: a, python: 'm:C', send: text}]", "send"),
        ("chain: [{name: a, port: 1, breaker: {failures: 0}}]", "breaker"),
    ],
)
def test_a_mistake_is_refused(text: str, said: str) -> None:
    """A file with a mistake in it is an error that says which; nothing is guessed."""
    with pytest.raises(DemurError, match=said):
        parse_chain(text)


def test_errors_name_the_file(tmp_path: Path) -> None:
    """An error in a file says which file, and a missing file is one."""
    path = tmp_path / "auditors.yaml"
    path.write_text("chain: []")
    with pytest.raises(EmptyInputError, match=r"auditors\.yaml"):
        read_chain(str(path))
    with pytest.raises(InputError, match=r"missing\.yaml"):
        read_chain(str(tmp_path / "missing.yaml"))


def test_a_class_is_loaded_from_module_or_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`module:Class` is looked for beside the user too, and `file.py:Class` anywhere."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    text = "from demur.audit.config import importing\nclass Mine:\n    seen = importing()\n"
    (tmp_path / "a_module_of_mine.py").write_text(text)
    for spec in ("a_module_of_mine:Mine", f"{tmp_path}/a_module_of_mine.py:Mine"):
        loaded = load_class(spec)
        assert loaded.__name__ == "Mine"
        assert vars(loaded)["seen"] is True
    assert not importing()


@pytest.mark.parametrize(
    "spec", ["json", "json:", ":C", "json:no_such", "json:loads", "no_such_module:C", "no_such.py:C", "json:a b"]
)
def test_a_class_that_is_not_there(spec: str) -> None:
    """A name that leads to no class is an error, and no traceback."""
    with pytest.raises(UsageError):
        load_class(spec)


def test_a_file_that_does_not_compile(tmp_path: Path) -> None:
    """A file with a syntax error in it is an error that names it."""
    path = tmp_path / "broken.py"
    path.write_text("class Mine(\n")
    with pytest.raises(UsageError, match=r"broken\.py"):
        load_class(f"{path}:Mine")


def test_the_id_of_a_remote_auditor_can_be_expected() -> None:
    """`auditor_id` reaches the settings of a remote auditor, and is refused for one in the process."""
    assert parse_chain("chain: [{name: a, port: 1, auditor_id: b}]").auditors[0].auditor_id == "b"
    with pytest.raises(UsageError, match="auditor_id"):
        parse_chain("chain: [{name: a, python: 'm:C', auditor_id: b}]")


@pytest.mark.parametrize(
    ("chain", "port"),
    [
        (None, 8085),
        ("chain: [{name: mine, port: 9001}]", 9001),
        ("chain: [{name: other, auditor_id: mine, url: 'http://localhost:9002'}]", 9002),
        ("chain: [{name: other, port: 9001}]", 8085),
        ("chain: [{name: mine, url: 'http://elsewhere.example:9001'}]", 8085),
        ("chain: [{name: mine, python: safety-checker}]", 8085),
    ],
)
def test_an_auditor_listens_where_the_chain_asks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, chain: str | None, port: int
) -> None:
    """The port is that of `auditors.yaml` in the working folder for this auditor and machine, else Lucid's."""
    monkeypatch.chdir(tmp_path)
    if chain is not None:
        (tmp_path / "auditors.yaml").write_text(chain, encoding="utf-8")
    assert port_of_auditor("mine") == port
