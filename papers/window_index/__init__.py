"""Indexes over windows in memory: the experiments and cost formulas of the report of Golab, Garg and Özsu."""
