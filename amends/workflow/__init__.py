"""One sequence of stages for Python and the command line: a model and its data, or a config that names them, come in;
a repair, or a run folder, goes out.

`job` loads what a config names. `stages` is the sequence itself. `repair` follows it in Python and has what is handed
back. `verbs` follows it for the command line: `checkpoint` keeps each stage as it ends, so that a repair that was
stopped goes on, and `store` writes what a finished run folder holds. `check` looks before anything is computed,
and `warned` says what a person should know in the end.
"""
