"""Which examples are near each other: factors and weights come in; conflicts, copies, clusters and votes go out."""
