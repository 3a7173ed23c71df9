"""Names of columns on their way from and to Kafka; what needs no broker and no Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sash.core.errors import SourceError
from sash.spark.kafka import Messages

# -- messages as tuples ---------------------------------------------------------------------------------


def test_the_columns_of_a_message_are_known_in_any_letters() -> None:
    declared = pa.schema({"Key": pa.int32(), "KAFKA_KEY": pa.string(), "Kafka_Offset": pa.int64(), "v": pa.int32()})
    assert Messages({}, declared).of_value.names == ["Key", "v"]


@pytest.mark.parametrize("name", ["kafka_offset", "Kafka_Offset", "KAFKA_OFFSET"])
def test_their_types_are_given(name: str) -> None:
    with pytest.raises(SourceError, match=f"column '{name}' is the message's own, and int64, not int32"):
        Messages({}, pa.schema({name: pa.int32()}))
