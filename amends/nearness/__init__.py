"""What lies near what: a factor and weights come in, conflicting, similar and repeated examples go out."""
