"""The dashboard's questions come to the same in PostgreSQL as in SQLite."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.dashboard.dashboard_logs import filled_log

from demur.dashboard.exchange import ExchangeReader
from demur.dashboard.reader import DashboardReader, period_of
from demur.dashboard.values import SessionFilter

pytestmark = pytest.mark.heavy


def test_both_engines_give_the_same_pages(database: str, tmp_path: Path) -> None:
    """Overview, sessions by activity, by name and by filter, one session, policies and checks do not depend on the engine."""
    shared = DashboardReader(filled_log(tmp_path / "shared", 200, database=database))
    embedded = DashboardReader(filled_log(tmp_path / "embedded", 200))
    pages = [
        (
            reader.overview(lambda hours: period_of(hours, range_="all")),
            reader.policies(lambda hours: period_of(hours, range_="24h")).rules,
            reader.sessions(SessionFilter()),
            reader.sessions(SessionFilter(search="0")),
            reader.sessions(SessionFilter(decision="deny", since="2026-01-22", until="2026-01-24")),
            reader.session(reader.sessions(SessionFilter()).rows[0][0].session),
            [(line.name, line.state) for line in ExchangeReader(reader, texts=True).by_place(7).checks],
            ExchangeReader(reader, texts=True).by_place(7).texts,
        )
        for reader in (shared, embedded)
    ]
    policies = [page[1] for page in pages]
    assert [(rule.rule, rule.n) for rule in policies[0]] == [(rule.rule, rule.n) for rule in policies[1]]
    assert pages[0][0] == pages[1][0]
    assert pages[0][2:] == pages[1][2:]
