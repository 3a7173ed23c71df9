"""From a SELECT to a bound query and its plans, and from INSERT, UPDATE and DELETE to rows."""
