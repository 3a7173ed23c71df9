"""When periodic queries run, and which of them run together (thesis, section 8.4).

The engine applies an update to the synopses, then asks `LocalScheduler.decide(now)` until nothing is due:

    add ──► sub-groups (tasks) ──► policy: periods ──► deadline heaps ──► policy: who joins ──► Execution ──► done
            of one SLIDE each      planning, cost      EDF, absolute      V(T), same group                next deadlines

Several local schedulers, one per set of synopses, divide the time by `SharedTime`; `simulate` runs the same code
against a virtual clock.
"""

from sash.schedule.cost import SubGroupCost, cost_per_time, intervals_scanned, joint_cost, separate_cost
from sash.schedule.local import LocalScheduler
from sash.schedule.planning import plan_periods
from sash.schedule.policies import POLICIES, POLICY_NAMES, Policy, PredictedQuery, policy, predicted_cost
from sash.schedule.simulate import SimulatedRun, latencies, simulate, throughput
from sash.schedule.task import Due, ScheduledTask, Task, TaskKey
from sash.schedule.time_shares import SharedTime

__all__ = [
    "POLICIES",
    "POLICY_NAMES",
    "Due",
    "LocalScheduler",
    "Policy",
    "PredictedQuery",
    "ScheduledTask",
    "SharedTime",
    "SimulatedRun",
    "SubGroupCost",
    "Task",
    "TaskKey",
    "cost_per_time",
    "intervals_scanned",
    "joint_cost",
    "latencies",
    "plan_periods",
    "policy",
    "predicted_cost",
    "separate_cost",
    "simulate",
    "throughput",
]
