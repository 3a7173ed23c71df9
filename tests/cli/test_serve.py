"""`sash serve` without Spark: errors before Spark starts. The rest is in tests/server."""

from __future__ import annotations

import socket
import sys

import pytest

from tests.cli.examples import CREATE, TOTALS

SCRIPT = CREATE.format(path="nowhere") + TOTALS


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2"])
def test_other_machines_need_a_token(sash, script, host):
    result = sash("serve", script(SCRIPT), "--host", host)
    assert result.exit_code == 2 and result.stdout == ""
    told = " ".join(result.stderr.replace("│", " ").split())
    assert "needs a token" in told and "SASH_TOKEN" in told


@pytest.mark.parametrize("options", [["--port", "70000"], ["--port", "x"], ["--max-rows", "0"], ["--token", ""]])
def test_options_that_are_wrong(sash, script, options):
    assert sash("serve", script(SCRIPT), *options).exit_code == 2


def test_a_port_in_use_is_told_before_spark_starts(sash, script):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = sash("serve", script(SCRIPT), "--port", port)
    assert result.exit_code == 1 and f"port {port} of 127.0.0.1 is in use" in result.stderr
    assert "Starting Spark" not in result.stderr


def test_without_the_web_packages(sash, script, monkeypatch):
    for name in [each for each in sys.modules if each == "sash.server" or each.startswith("sash.server.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    result = sash("serve", script(SCRIPT))
    assert (
        result.exit_code == 1
        and "pip install '.[server]' in the folder of Sash's" in result.stderr
        and "fastapi" in result.stderr
    )
