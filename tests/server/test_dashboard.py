"""`session.dashboard()`: the page from a program or a notebook."""

from __future__ import annotations

import sys
import urllib.error
import urllib.request

import pytest

from sash.core.errors import SashError
from tests.support.sparkless_session import SparklessSession


def test_it_answers_until_the_session_is_closed(session: SparklessSession) -> None:
    opened = session.dashboard()
    with urllib.request.urlopen(opened.url + "api/health") as response:
        assert response.status == 200
    session.close()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(opened.url + "api/health", timeout=2)


def test_a_notebook_shows_a_link(session: SparklessSession) -> None:
    opened = session.dashboard()
    assert f'href="{opened.url}"' in opened._repr_html_()  # type: ignore[attr-defined]
    opened.stop()
    assert "stopped" in opened._repr_html_()  # type: ignore[attr-defined]


def test_one_at_a_time(session: SparklessSession) -> None:
    """Both would show the page of the later one."""
    opened = session.dashboard()
    with SparklessSession() as other:
        with pytest.raises(SashError, match=r"this process serves a session at http://127\.0\.0\.1:\d+/ already"):
            other.dashboard()
        opened.stop()
        other.dashboard().stop()


def test_without_the_extra_it_says_what_to_install(session: SparklessSession, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("sash.server")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "nicegui", None)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(
        SashError, match=r"the page needs \w+: pip install '\.\[server\]' in the folder of Sash's repository"
    ):
        session.dashboard()
