"""One sequence of stages for Python and the command line: a model and its data, or a config that names them, come in;
a repair, or a run folder, goes out."""
