"""What queries and answers look like in a notebook: HTML that a page's own style colours, and charts."""
