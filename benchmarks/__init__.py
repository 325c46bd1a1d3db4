"""amends beside its peers and beside the floor. Every script here also runs by its path."""
