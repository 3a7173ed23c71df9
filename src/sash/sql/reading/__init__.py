"""From text to statements: the grammar of Sash's own on a cursor, SELECT and expressions by sqlglot."""
