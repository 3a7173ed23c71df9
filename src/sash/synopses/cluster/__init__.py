"""Panes that live in the cluster: what this process knows of them, how their rows lie in files, how they are read.

panes.py      ClusterPanes: the files of a pane table, in place of the panes themselves
rows.py       rows of panes as they lie in files, and a synopsis of such rows
inquiry.py    the readings of a joint execution, computed wherever some of the groups are
"""

from __future__ import annotations

from sash.synopses.cluster.inquiry import Inquiry
from sash.synopses.cluster.panes import FILES, Cluster, ClusterPanes
from sash.synopses.cluster.rows import key_name, stored_panes, stored_rows, stored_schema

__all__ = [
    "FILES",
    "Cluster",
    "ClusterPanes",
    "Inquiry",
    "key_name",
    "stored_panes",
    "stored_rows",
    "stored_schema",
]
