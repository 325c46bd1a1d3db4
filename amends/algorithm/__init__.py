"""Algorithm 1, step by step: evidence comes in; scores, a choice of causes, treated weights and a verdict go out."""
