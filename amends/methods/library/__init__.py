"""One file a method: its options come in, a `Method` or a `Scorer` goes out. `amends/methods/table.py` lists them."""
