"""Results for people to read: scores and examples come in, data frames and small pictures go out."""
