"""From a SELECT without SLIDE, or one that panes cannot answer, to the plan of a continuous query."""
