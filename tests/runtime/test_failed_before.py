"""A query that has failed at an earlier time of an advance gives no more answers in that advance."""

from __future__ import annotations

from sash.runtime.periodic.active import AdvanceOutcome
from sash.runtime.periodic.executor import JointAnswers
from sash.runtime.periodic.joint_queries import JointQueries
from tests.support.sparkless_session import SparklessSession, tuples
from tests.support.streams import stream


def test_only_the_queries_that_have_not_failed_answer() -> None:
    with SparklessSession() as session:
        session.declare(stream())
        for name in ("good", "bad"):
            session.register(f"SELECT SUM(v) AS {name} FROM s [WINDOW 4 sec SLIDE 2 sec]", name)
        session.push("s", tuples(*((second, 1, 1) for second in range(1, 12))))
        runtime = session.streams["s"].runtime
        queries = JointQueries([runtime.active[name] for name in ("good", "bad")])
        position = queries.home.clock.position
        for failed, told in (({}, ["good", "bad"]), ({"bad": "division by zero"}, ["good"])):
            outcome = AdvanceOutcome(failed=dict(failed))
            (batch,) = JointAnswers([queries], position, outcome).answers()
            assert [answer.query for answer in batch.answers] == told
