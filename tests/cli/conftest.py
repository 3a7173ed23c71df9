from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from typer.testing import CliRunner

from sash.cli import app
from tests.cli.examples import moment


@pytest.fixture
def sash() -> Callable[..., Result]:
    """Call the command line; stdout and stderr are apart."""
    runner = CliRunner()
    return lambda *arguments, **options: runner.invoke(app, [str(a) for a in arguments], **options)


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "script.sql"
        path.write_text(text)
        return path

    return write


@pytest.fixture
def packets(tmp_path: Path) -> Path:
    """Ten seconds, ten tuples a second, in two files: k is 0 or 1, v counts up from 1."""
    directory = tmp_path / "packets"
    directory.mkdir()
    for number in range(2):
        rows = range(number * 50 + 1, number * 50 + 51)
        table = pa.table(
            {
                "ts": pa.array([moment(row / 10) for row in rows], pa.timestamp("us", "UTC")),
                "k": pa.array([row % 2 for row in rows], pa.int32()),
                "v": pa.array(list(rows), pa.int32()),
            }
        )
        pq.write_table(table, directory / f"{number}.parquet")
    return directory
