"""The engine: the only layer that chains the others. Compiler, runtime of a stream, session."""
