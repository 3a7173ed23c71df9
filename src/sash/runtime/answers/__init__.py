"""The results of a program: queries, their answers, subscribers and sinks."""
