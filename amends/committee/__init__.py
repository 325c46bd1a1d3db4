"""The default way to score D: several methods come in and are tried on halves of what is known to be right; one
weighted score for each training example goes out."""
