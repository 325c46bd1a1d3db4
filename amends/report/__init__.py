"""Results to look at: a run folder or a result comes in; an HTML page, a notebook view, a model card or pictures go
out. Nothing is computed here."""
