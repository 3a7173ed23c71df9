"""Update patterns: the experiments of the thesis, 3.6."""
