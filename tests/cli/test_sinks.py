import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sash.cli.answer_files import ParquetAnswers, Sinks, write_json_answer
from sash.core.errors import SashError
from tests.cli.examples import answer, moment


class TestParquet:
    def test_as_of_comes_first(self, tmp_path):
        ParquetAnswers(tmp_path / "out")(answer(5, k=[1, 2], total=[3, 4]))
        table = pq.read_table(tmp_path / "out" / "totals")
        assert table.column_names == ["as_of", "k", "total"]
        assert table.schema.field("as_of").type == pa.timestamp("us", "UTC")
        assert table["as_of"].to_pylist() == [moment(5), moment(5)]

    def test_an_answer_that_comes_again_replaces_itself(self, tmp_path):
        sink = ParquetAnswers(tmp_path)
        for values in ([1], [1], [2]):
            sink(answer(5, k=values))
        sink(answer(10, k=[3]))
        names = sorted(path.name for path in (tmp_path / "totals").iterdir())
        assert names == ["20260101T000005.000000Z.parquet", "20260101T000010.000000Z.parquet"]
        assert pq.read_table(tmp_path / "totals").sort_by("as_of")["k"].to_pylist() == [2, 3]

    def test_answers_over_rows_may_be_as_of_one_time(self, tmp_path):
        sink = ParquetAnswers(tmp_path)
        for rows in (1, 2, 2):
            sink(replace(answer(5, k=[rows]), rows=rows))
        assert sorted(pq.read_table(tmp_path / "totals")["k"].to_pylist()) == [1, 2]

    def test_an_empty_answer_is_a_file_too(self, tmp_path):
        ParquetAnswers(tmp_path)(answer(5, k=[]))
        assert pq.read_table(tmp_path / "totals").num_rows == 0

    def test_a_column_of_that_name_is_renamed(self, tmp_path, caplog):
        sink = ParquetAnswers(tmp_path)
        sink(answer(5, AS_OF=[1]))
        sink(answer(10, AS_OF=[2]))
        assert pq.read_table(tmp_path / "totals").column_names == ["as_of", "AS_OF_"]
        (record,) = caplog.records
        assert record.sash == {"event": "column.renamed", "query": "totals", "column": "AS_OF", "renamed": "AS_OF_"}

    def test_names_cannot_leave_the_directory(self, tmp_path):
        ParquetAnswers(tmp_path / "out")(answer(query="../up"))
        assert [path.name for path in tmp_path.iterdir()] == ["out"]

    def test_a_directory_that_cannot_be_made(self, tmp_path):
        (tmp_path / "file").touch()
        with pytest.raises(SashError, match="cannot write answers"):
            ParquetAnswers(tmp_path / "file")


def test_json_is_one_line(capsys):
    write_json_answer(answer(5, k=[1], x=[float("nan")], at=[moment(1)]))
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == {
        "query": "totals",
        "as_of": "2026-01-01T00:00:05+00:00",
        "complete": True,
        "scheduled": True,
        "rows": [{"k": 1, "x": "NaN", "at": "2026-01-01T00:00:01+00:00"}],
    }


class TestSinks:
    def test_the_first_error_is_kept_and_stops_the_run(self):
        stops, seen = [], []

        def full(answer):
            raise OSError("no space left")

        sinks = Sinks([seen.append, full], lambda: stops.append(1))
        sinks(answer(5))
        sinks(answer(10))
        assert len(seen) == len(stops) == 1 and not sinks.reader_is_gone
        with pytest.raises(SashError, match="no space left"):
            sinks.check()

    def test_a_reader_that_leaves_is_no_error_to_report(self):
        def gone(answer):
            raise BrokenPipeError

        sinks = Sinks([gone], lambda: None)
        sinks(answer())
        assert sinks.reader_is_gone
