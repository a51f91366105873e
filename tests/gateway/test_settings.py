"""The gateway's settings: three sources, one frozen value, and errors that say where."""

from __future__ import annotations

from pathlib import Path

import pytest

from demur.errors import DemurError, ShapeError, UsageError
from demur.gateway.settings import GATEWAY_SETTINGS, GatewaySettings, KeyHeader, RoutePart, StorePart
from demur.io.settings import secret_of
from demur.record.store.postgres_address import without_password

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(folder: Path, text: str) -> str:
    (folder / "demur.toml").write_text(text, encoding="utf-8")
    return str(folder / "demur.toml")


@pytest.mark.usefixtures("folder")
def test_nothing_at_all_is_enough() -> None:
    """Without a file, a variable or a flag the defaults hold: loopback, signed, no texts kept; enforcing closed, recording open."""
    settings = GATEWAY_SETTINGS.load(environ={}).settings
    assert settings == GatewaySettings()
    assert (settings.listen.host, settings.listen.workers) == ("127.0.0.1", 1)
    assert (settings.store.durability, settings.signing.mode) == ("async", "ed25519")
    assert {settings.failure.upstream, settings.failure.auditors} == {"closed"}
    assert {settings.failure.store, settings.failure.policy_reload} == {"open"}
    assert (settings.upstream.url, settings.policy.paths) == ("", ("observe-only",))
    assert not settings.disclosure.on
    assert settings.upstream.verify


def test_later_sources_win_setting_by_setting(folder: Path) -> None:
    """The file is beaten by the environment, that by a flag; what a later one leaves open stays."""
    written(folder, '[gateway]\ndeny = "refusal"\n[gateway.listen]\nhost = "::1"\nport = 1\nworkers = 2\n')
    env = {"DEMUR_GATEWAY_LISTEN_PORT": "2", "DEMUR_GATEWAY_LISTEN_WORKERS": "3", "OTHER": "x"}
    loaded = GATEWAY_SETTINGS.load(environ=env, flags={"listen.workers": "4"})
    listen = loaded.settings.listen
    assert (listen.host, listen.port, listen.workers, loaded.settings.deny) == ("::1", 2, 4, "refusal")
    assert loaded.origins["listen.port"] == "the variable DEMUR_GATEWAY_LISTEN_PORT"


def test_every_kind_of_value_can_be_written_as_text(folder: Path) -> None:
    """Numbers, words, lists and yes or no are read from the environment as from the file."""
    text = '[gateway.policy]\npaths = ["a", "b"]\nreload_s = 3\n[gateway.disclosure]\non = true\n'
    env = {
        "DEMUR_GATEWAY_POLICY_PATHS": "a, b",
        "DEMUR_GATEWAY_POLICY_RELOAD_S": "3.0",
        "DEMUR_GATEWAY_DISCLOSURE_ON": "yes",
    }
    assert (
        GATEWAY_SETTINGS.load(environ=env).settings == GATEWAY_SETTINGS.load(written(folder, text), environ={}).settings
    )


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("[gateway]\n\n[gateway.listen]\nprot = 1\n", 4, "`listen.prot` is no setting; did you mean `listen.port`?"),
        ("[gateway]\nport = 1\n", 2, "`port` is no setting; did you mean `listen.port`?"),
        ("[gateway]\nlisten.port = 'x'\n", 2, "`listen.port` is `x`; expected a whole number"),
        ("[gateway.listen]\nport = 1.5\n", 2, "`listen.port` is `1.5`; expected a whole number"),
        ("[gateway.listen]\nport = true\n", 2, "`listen.port` is `True`; expected a whole number"),
        ("[gateway.listen]\nport = 65536\n", 2, "expected a number from 0 to 65535"),
        ("[gateway.timeouts]\nread_s = 0\n", 2, "expected a number of 0.001 or more"),
        ("[gateway.timeouts]\nread_s = nan\n", 2, "expected a number"),
        ("[gateway.streaming]\nmode = 'fast'\n", 2, "expected one of auto, pass, window, buffer"),
        ("[gateway.policy]\npaths = ['a', 1]\n", 2, "expected a list of texts"),
        ("[gateway.listne]\nport = 1\n", 1, "`listne` is no setting"),
        ("[gateway\n", 1, "not TOML"),
        ("gateway = 1\n", None, "`gateway` is no table"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_its_line(folder: Path, text: str, line: int | None, what: str) -> None:
    """The error names file and line, what stands there, and what was expected."""
    with pytest.raises(ShapeError) as caught:
        GATEWAY_SETTINGS.load(written(folder, text), environ={})
    assert what in str(caught.value)
    assert (caught.value.line, caught.value.source) == (line, str(folder / "demur.toml"))


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("environ", "flags", "what"),
    [
        ({"DEMUR_GATEWAY_LISTEN_PROT": "1"}, {}, "did you mean `DEMUR_GATEWAY_LISTEN_PORT`?"),
        ({"DEMUR_GATEWAY_LISTEN_PORT": "1e3"}, {}, "`listen.port` is `1e3` in the variable DEMUR_GATEWAY_LISTEN_PORT"),
        ({"DEMUR_GATEWAY_UPSTREAM_VERIFY": "maybe"}, {}, "expected true or false"),
        ({}, {"listen.prot": "1"}, "did you mean `listen.port`"),
    ],
    ids=["misspelt variable", "value", "switch", "misspelt flag"],
)
def test_what_is_wrong_beside_the_file_is_said_with_its_name(
    environ: dict[str, str], flags: dict[str, str], what: str
) -> None:
    """A misspelt variable or flag is an error, not a setting that silently does not hold."""
    with pytest.raises(UsageError) as caught:
        GATEWAY_SETTINGS.load(environ=environ, flags=flags)
    assert what in str(caught.value)


def test_an_empty_list_is_a_list(folder: Path) -> None:
    """No policy named is the pack that blocks nothing; no header named is none at all."""
    loaded = GATEWAY_SETTINGS.load(written(folder, "[gateway]\npolicy.paths = []\nsessions.headers = []\n"), environ={})
    assert loaded.settings.policy.paths == ("observe-only",)
    assert loaded.settings.sessions.headers == ()


@pytest.mark.parametrize("name", ["two words", "a+b", "a\nb"])
def test_a_log_has_a_name_that_a_checkpoint_can_carry(name: str) -> None:
    """Blanks and the sign that checkpoints put between a name and its key are refused before anything listens."""
    with pytest.raises(UsageError, match="cannot be called"):
        GatewaySettings(store=StorePart(origin=name))


def test_a_file_that_is_named_must_exist(folder: Path) -> None:
    """Only the file that nobody named may be missing."""
    with pytest.raises(DemurError, match=r"other.toml"):
        GATEWAY_SETTINGS.load(str(folder / "other.toml"), environ={})


SECRET = "sk-live-5up3rs3cr3t"  # noqa: S105 — a made-up one


@pytest.mark.parametrize(
    ("text", "environ"),
    [
        (f'[gateway.upstream]\napi_key = "{SECRET}"\n', {}),
        (f'[gateway.upstream]\napi_key_env = "{SECRET}"\n', {}),
        (f'[gateway.dashboard]\ntoken = "{SECRET}"\n', {}),
        (f'[gateway.upstream]\nurl = "https://me:{SECRET}@api.example"\n', {}),
        ("", {"DEMUR_GATEWAY_UPSTREAM_API_KEY": SECRET}),
        ("", {"DEMUR_GATEWAY_UPSTREAM_API_KEY_ENV": SECRET}),
    ],
)
def test_a_secret_among_the_settings_is_refused_and_not_repeated(
    folder: Path, text: str, environ: dict[str, str]
) -> None:
    """A key where its variable's name belongs is an error that does not hold the key."""
    with pytest.raises(DemurError) as caught:
        GATEWAY_SETTINGS.load(written(folder, text), environ=environ)
    assert SECRET not in str(caught.value)
    assert "variable" in str(caught.value)


def test_what_is_shown_holds_no_secret_and_can_be_read_again(folder: Path) -> None:
    """The configuration as shown is a file of the same settings, but for the password."""
    text = (
        '[gateway.upstream]\napi_key_env = "MY_KEY"\n[gateway.listen]\nuds = "a\\"b\\\\c"\n'
        '[[gateway.routes]]\npaths = ["/v1/messages"]\nurl = "https://api.anthropic.com"\napi_key_header = "x-api-key"\n'
    )
    name = written(folder, text)
    plain = GATEWAY_SETTINGS.load(name, environ={"MY_KEY": SECRET})
    again = GATEWAY_SETTINGS.load(written(folder, GATEWAY_SETTINGS.as_toml(plain, redact=without_password)), environ={})
    assert again.settings == plain.settings
    held = GATEWAY_SETTINGS.load(name, environ={"DEMUR_GATEWAY_STORE_URL": f"postgresql://me:{SECRET}@h/db"})
    shown = GATEWAY_SETTINGS.as_toml(held, redact=without_password)
    assert SECRET not in shown + repr(held)
    assert "postgresql://me:***@h/db" in shown
    assert held.settings.store.url.count(SECRET) == 1


def test_a_path_goes_to_the_route_that_fits_best(folder: Path) -> None:
    """The longest beginning wins, and the upstream has the rest."""
    text = (
        '[gateway.upstream]\nurl = "https://a.example"\n'
        '[[gateway.routes]]\npaths = ["/v1/m"]\nurl = "https://b.example"\n'
        '[[gateway.routes]]\npaths = ["/v1/messages", "/x"]\nurl = "https://c.example"\n'
    )
    settings = GATEWAY_SETTINGS.load(written(folder, text), environ={}).settings
    found = [settings.provider_of(path).url for path in ("/v1/models", "/v1/messages", "/v1/chat")]
    assert found == ["https://b.example", "https://c.example", "https://a.example"]
    assert settings.routes[0].api_key_header is KeyHeader.AUTO


@pytest.mark.parametrize(
    "text",
    [
        '[[gateway.routes]]\nurl = "https://b.example"\n',
        '[[gateway.routes]]\npaths = ["v1"]\nurl = "https://b.example"\n',
        '[[gateway.routes]]\npaths = ["/v1"]\n',
        '[[gateway.routes]]\npath = ["/v1"]\nurl = "https://b.example"\n',
        '[gateway]\nroutes = "x"\n',
    ],
)
def test_a_route_has_paths_and_an_address(folder: Path, text: str) -> None:
    """A route that could never be taken, or leads nowhere, is refused."""
    with pytest.raises(DemurError):
        GATEWAY_SETTINGS.load(written(folder, text), environ={})


@pytest.mark.usefixtures("folder")
def test_the_provider_s_key_is_not_lent_to_a_network() -> None:
    """Listening beyond this machine with the provider's key needs the clients' keys, or a word that says so."""
    env = {"DEMUR_GATEWAY_LISTEN_HOST": "0.0.0.0", "DEMUR_GATEWAY_UPSTREAM_API_KEY_ENV": "K"}  # noqa: S104 — the subject
    with pytest.raises(UsageError, match=r"keys.file"):
        GATEWAY_SETTINGS.load(environ=env)
    for more in (
        {"DEMUR_GATEWAY_KEYS_FILE": "keys.toml"},
        {"DEMUR_GATEWAY_KEYS_OPEN": "true"},
        {"DEMUR_GATEWAY_LISTEN_HOST": "localhost"},
        {"DEMUR_GATEWAY_LISTEN_HOST": "::1"},
    ):
        GATEWAY_SETTINGS.load(environ=env | more)


def test_a_secret_is_read_where_its_variable_is_named() -> None:
    """No name, no secret; a name without a value is an error with the name."""
    assert secret_of("") is None
    assert secret_of("K", {"K": " v "}) == "v"
    with pytest.raises(UsageError, match="`K` is not set"):
        secret_of("K", {"K": " "})


def test_every_setting_is_on_the_page() -> None:
    """The page holds the table that the settings themselves make, and no two settings share a variable."""
    assert GATEWAY_SETTINGS.as_markdown() in PAGE.read_text(encoding="utf-8")
    names = GATEWAY_SETTINGS.declared
    assert len({each.variable for each in names.values()}) == len(names) > 40
    assert all(each.about.what for each in names.values())
    assert RoutePart().verify


@pytest.mark.parametrize(
    ("table", "hint"),
    [
        ("policy", "did you mean [gateway.policy]?"),
        ("gatway.store", "did you mean [gateway]?"),
        ("zzz", "there are [columns], [gateway], [simulator]"),
    ],
)
def test_a_table_that_nobody_reads_is_an_error(folder: Path, table: str, hint: str) -> None:
    """A table outside of ours would leave every default in force without a word, so it is refused with its line."""
    file = written(folder, f"# mine\n[simulator]\nseed = 7\n\n[{table}]\npaths = []\n")
    with pytest.raises(ShapeError) as raised:
        GATEWAY_SETTINGS.load(file, environ={})
    assert (raised.value.line, raised.value.hint) == (5, hint)
