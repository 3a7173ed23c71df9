"""When periodic queries run, and which of them run together (thesis, section 8.4).

The engine applies an update to the synopses, then asks `LocalScheduler.decide(now)` until nothing is due:

    add ──► sub-groups (tasks) ──► deadline heaps ──► policy: who joins ──► Execution ──► done: next deadlines
            of one SLIDE each      EDF, absolute       conservative: equal d, same group
"""

from sash.scheduling.cost import intervals_scanned, joint_cost, separate_cost
from sash.scheduling.local import LocalScheduler
from sash.scheduling.policies import POLICIES, Conservative, EarliestDeadlineFirst, Policy, policy
from sash.scheduling.task import Due, Execution, Task, TaskKey

__all__ = [
    "POLICIES",
    "Conservative",
    "Due",
    "EarliestDeadlineFirst",
    "Execution",
    "LocalScheduler",
    "Policy",
    "Task",
    "TaskKey",
    "intervals_scanned",
    "joint_cost",
    "policy",
    "separate_cost",
]
