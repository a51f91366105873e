"""Policies on disk: what is read, and what a change there may and may not do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from demur.errors import DemurError, EmptyInputError, EncodingError, InputError, PolicyError, ShapeError
from demur.model.claim import ClaimType, Effect, Phase
from demur.policy.cases import RecordedDecision
from demur.policy.cedar import PolicySource
from demur.policy.files import PolicyFolder, read_cases, read_policies, read_recorded, read_vocabulary
from demur.policy.gate import Ask, load_gate

DENY = "forbid (principal, action, resource) when { context.claims.toxic_content > 0.8 };"
CASES = "- {name: hot, claims: {toxic_content: 0.9}, decision: deny}\n"


def folder(path: Path, **files: str) -> str:
    for name, text in files.items():
        (path / name.replace("_", ".")).write_text(text, encoding="utf-8")
    return str(path)


def test_a_folder_is_its_files_by_name(tmp_path: Path) -> None:
    """Policies come in the order of their names, fixtures beside them, other files not at all."""
    name = folder(tmp_path, b_cedar=DENY, a_cedar="\ufeff" + DENY, cases_yaml=CASES, notes_txt="x")
    files = read_policies([name])
    assert [source.name for source in files.sources] == [f"{name}/a.cedar", f"{name}/b.cedar"]
    assert files.sources[0].text == DENY
    assert [case.name for case in files.cases()] == ["hot"]


def test_names_are_files_or_packs(tmp_path: Path) -> None:
    """A pack goes by its name; a missing file, an empty folder and an unknown name are refused."""
    assert read_policies(["strict"]).sources[0].name == "strict.cedar"
    with pytest.raises(InputError, match="check the path"):
        read_policies([str(tmp_path / "missing.cedar")])
    with pytest.raises(PolicyError, match=r"no `\.cedar` file in the folder"):
        read_policies([str(tmp_path)])
    with pytest.raises(PolicyError, match="did you mean `observe-only`"):
        read_policies(["observe_only"])
    (tmp_path / "latin.cedar").write_bytes(b"// \xe9")
    with pytest.raises(EncodingError, match=r"latin\.cedar"):
        read_policies([str(tmp_path / "latin.cedar")])


def test_a_good_change_takes_over_and_no_change_is_none(tmp_path: Path) -> None:
    """A poll without a change says nothing; a sound change is the gate from then on."""
    kept = PolicyFolder([folder(tmp_path, a_cedar=DENY)])
    assert kept.poll() is None
    first = kept.gate
    folder(tmp_path, a_cedar=DENY.replace("0.8", "0.3"))
    change = kept.poll()
    assert change is not None
    assert change.swapped
    assert change.digest == kept.gate.digest != first.digest
    assert kept.gate.decide(Ask(Phase.REQUEST, {"toxic_content": 0.5})).effect is Effect.DENY
    assert kept.poll() is None


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"a_cedar": "forbid (principal"}, "unexpected end of input"),
        ({"a_cedar": "// nothing"}, "no policy in"),
        ({"a_cedar": DENY.replace("content", "contnt")}, "did you mean `toxic_content`"),
        ({"a_cedar": "forbid (principal, action, resource) when { context.claims.language > 0.5 };"}, "saw String"),
        ({"cases_yaml": CASES.replace("0.9", "0.1")}, "case `hot`: expected deny, got allow"),
        ({"cases_yaml": "[]"}, "no case in it"),
    ],
)
def test_a_bad_change_leaves_the_old_gate(tmp_path: Path, files: dict[str, str], said: str) -> None:
    """A set that does not load, is not valid or fails its fixtures is reported once, and the old one stays."""
    kept = PolicyFolder([folder(tmp_path, a_cedar=DENY, cases_yaml=CASES)])
    before = kept.gate
    folder(tmp_path, **files)
    change = kept.poll()
    assert change is not None
    assert not change.swapped
    assert said in change.said[0]
    assert kept.gate is before
    assert kept.poll() is None
    folder(tmp_path, a_cedar=DENY + "\n", cases_yaml=CASES)
    again = kept.poll()
    assert again is not None
    assert again.swapped


def test_a_folder_that_vanishes_leaves_the_old_gate(tmp_path: Path) -> None:
    """Files that cannot be read any more are a reason to say so, not to open the gate."""
    kept = PolicyFolder([folder(tmp_path, a_cedar=DENY)])
    (tmp_path / "a.cedar").unlink()
    change = kept.poll()
    assert change is not None
    assert not change.swapped
    assert kept.poll() is None
    assert kept.gate.decide(Ask(Phase.REQUEST, {"toxic_content": 0.9})).effect is Effect.DENY


def test_a_folder_must_be_sound_at_first(tmp_path: Path) -> None:
    """There is no old gate to keep at the start: a bad set is refused."""
    with pytest.raises(DemurError, match="did you mean"):
        PolicyFolder([folder(tmp_path, a_cedar=DENY.replace("content", "contnt"))])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- name: a\n  decision: dney", "did you mean `deny`"),
        ("- name: a", "missing required field `decision`"),
        ("- {name: a, decision: deny, clams: {}}", "unknown field `clams`"),
        ("a: [", "not YAML"),
        ("cases: 3", "no fixtures"),
    ],
)
def test_fixtures_that_cannot_be_read_are_refused(text: str, said: str) -> None:
    """A fixture with a typing error never passes in silence."""
    with pytest.raises(PolicyError, match=said):
        read_cases(PolicySource("c.yaml", text))


def test_a_case_says_everything_that_can_be_asked() -> None:
    """Phase, claims, session, model, labels, extras, and the rules expected."""
    text = "cases:\n- {name: a, phase: response, claims: {x: .nan}, session: s, model: m, labels: [l], decision: warn, fired: [r]}"
    (case,) = read_cases(PolicySource("c.yaml", text))
    assert (case.ask.phase, case.ask.session, case.ask.model, case.ask.labels) == (Phase.RESPONSE, "s", "m", ("l",))
    assert (case.decision, case.fired) == (Effect.WARN, ("r",))


def test_a_vocabulary_is_read_as_auditors_answer(tmp_path: Path) -> None:
    """One auditor's answer, or a list of several."""
    claims = [{"name": "a.b", "type": "score_normalized", "phase": "request", "sensitive": True}]
    path = tmp_path / "v.json"
    for answer in ({"auditor_id": "x", "claims": claims}, [{"auditor_id": "x", "claims": claims}]):
        path.write_text(json.dumps(answer))
        spec = read_vocabulary(str(path)).find("a_b")
        assert spec is not None
        assert (spec.type, spec.auditor, spec.sensitive) == (ClaimType.SCORE_NORMALIZED, "x", True)
    for bad, error in (({"claims": []}, EmptyInputError), ({"claims": [{"name": "a"}]}, ShapeError)):
        path.write_text(json.dumps(bad))
        with pytest.raises(error):
            read_vocabulary(str(path))


def test_records_are_rows_or_passports(tmp_path: Path) -> None:
    """A recorded context, a plain one, a passport's phases; a bad line yields its error and the rest is read."""
    gate = load_gate([PolicySource("p", DENY)])
    full = gate.context_of(Ask(Phase.REQUEST, {"toxic_content": 0.9}))
    rows = [
        json.dumps({"context": full, "decision": {"effect": "deny"}}),
        json.dumps({"context": {"claims": {"toxic_content": 0.1}}, "decision": "allow"}),
        json.dumps({"predicate": {"phases": [{"context": full, "decision": "warn"}, {"context": full}]}}),
        "nonsense",
        json.dumps({"context": {"action": "request"}}),
        json.dumps({"context": {"claims": {}}, "decision": "maybe"}),
        json.dumps([1]),
    ]
    path = tmp_path / "r.jsonl"
    path.write_text("\n".join(rows))
    found = list(read_recorded(str(path), gate))
    good = [row for row in found if isinstance(row, RecordedDecision)]
    bad = [row for row in found if isinstance(row, InputError)]
    assert [row.effect for row in good] == [Effect.DENY, Effect.ALLOW, Effect.WARN, None]
    assert [error.line for error in bad] == [4, 5, 6, 7]
    (missing,) = read_recorded(str(tmp_path / "none"), gate)
    assert isinstance(missing, InputError)
