"""What a program gets: queries, their answers, who is told of them and where they are written."""
