"""One sequence of stages for Python and the command line: a model and its data, or a config that names them, come in;
a repair, or a run folder, goes out.

`job` loads what a config names. `stages` is the sequence itself. `repair` follows it in Python and returns a `Repair`.
`verbs` follows it for the command line: `checkpoint` keeps each stage as it ends, so that a stopped repair can go on,
and `store` writes the finished run folder. `check` looks at model and data before anything is computed, and `warned`
makes the warnings.
"""
