"""What a model gets right: predictions come in, accuracies before and after with their uncertainty go out."""
