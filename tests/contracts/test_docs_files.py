"""What the documents show as a file is one that our own readers take."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.contracts.doc_pages import PAGES, ROOT, Block, blocks_of

from demur.audit.config import parse_chain
from demur.axes.rubric import parse_rubric
from demur.axes.rules.files import parse_rules
from demur.cli.columns import COLUMN_SETTINGS
from demur.detect.phrase_lists import parse_pack
from demur.gateway.keys import hash_key, parse_client_keys
from demur.gateway.settings import GATEWAY_SETTINGS
from demur.policy.cedar import PolicySource
from demur.policy.files import read_cases
from demur.policy.gate import load_gate
from demur.simulate.scenario import parse_scenario

GRAMMAR = ROOT / "demur_train" / "refusals" / "grammar" / "classes.toml"


def read_toml(text: str, folder: Path) -> str:
    """Return what a TOML text was taken for, after its reader took it."""
    given = tomllib.loads(text)
    if given.keys() & {"columns", "gateway", "simulator"}:
        (folder / "demur.toml").write_text(text, encoding="utf-8")
        GATEWAY_SETTINGS.load(str(folder / "demur.toml"), environ={})
        COLUMN_SETTINGS.load(str(folder / "demur.toml"), environ={})
        return "settings"
    if "key" in given:
        # A digest is shortened on the page: nobody could show a key that fits it anyway.
        parse_client_keys(re.sub(r'"sha256:[^"]*…[^"]*"', f'"{hash_key("k" * 32)}"', text), source="keys.toml")
        return "keys"
    if given.keys() & {"rules", "persona", "faults"}:
        parse_scenario(text, source="scenario.toml")
        return "scenario"
    if "group" in given:
        parse_pack(text, source="pack.toml")
        return "pack"
    if "phrases" in given:
        check_grammar(given)
        return "grammar"
    return "pytest" if "pytest" in given.get("tool", {}) else "unknown"


def check_grammar(given: dict[str, Any]) -> None:
    classes = {one["name"] for one in tomllib.loads(GRAMMAR.read_text(encoding="utf-8"))["class"]}
    templates = [one for several in given["phrases"].values() for one in several]
    slots = {slot for one in templates for slot in re.findall(r"{(\w+)}", one)}
    assert given["phrases"].keys() <= classes
    assert slots <= given["slots"].keys()


def read_yaml(text: str) -> str:
    """Return what a YAML text was taken for, after its reader took it."""
    given = yaml.safe_load(text)
    if isinstance(given, list):
        assert read_cases(PolicySource("cases.yaml", text))
        return "cases"
    readers: dict[str, Callable[[str], object]] = {"chain": parse_chain, "rules": parse_rules, "question": parse_rubric}
    for name, parse in readers.items():
        if name in given:
            parse(text)
            return name
    if "steps" in given:
        check_action(given)
        return "workflow"
    return next((name for name in ("tests", "services", "litellm_settings") if name in given), "unknown")


def check_action(workflow: dict[str, Any]) -> None:
    known = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["inputs"]
    ours = [step["with"] for step in workflow["steps"] if "/demur@" in step.get("uses", "")]
    assert ours
    assert [name for given in ours for name in given if name not in known] == []


@pytest.mark.parametrize("block", blocks_of(*PAGES, languages=("toml",)), ids=str)
def test_toml_on_the_pages_is_taken_by_its_reader(block: Block, tmp_path: Path) -> None:
    """A TOML file on a page is one of ours, and its own reader takes it."""
    assert read_toml(block.text, tmp_path) != "unknown"


@pytest.mark.parametrize("block", blocks_of(*PAGES, languages=("yaml",)), ids=str)
def test_yaml_on_the_pages_is_taken_by_its_reader(block: Block) -> None:
    """A YAML file on a page is one of ours, or of a tool that the page is about, and its reader takes it."""
    assert read_yaml(block.text) != "unknown"


@pytest.mark.parametrize("block", blocks_of(*PAGES, languages=("cedar",)), ids=str)
def test_policies_on_the_pages_load(block: Block) -> None:
    """A policy on a page is one that the gate loads, with at least one rule."""
    assert load_gate([PolicySource(str(block), block.text)]).rules


@pytest.mark.parametrize("block", blocks_of(*PAGES, languages=("json",)), ids=str)
def test_json_on_the_pages_parses(block: Block) -> None:
    """JSON on a page is one document, or one a line."""
    try:
        json.loads(block.text)
    except ValueError:
        assert [json.loads(line) for line in block.text.splitlines()]
