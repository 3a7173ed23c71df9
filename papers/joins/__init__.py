"""Multi-way joins: the algorithms and figures of the thesis, chapter 5."""
