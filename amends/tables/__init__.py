"""Results as a person reads them: scores and examples come in, data frames and small pictures go out."""
