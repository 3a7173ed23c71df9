"""From a SELECT over panes to a logical plan, and from INSERT, UPDATE and DELETE to rows."""
