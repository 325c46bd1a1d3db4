"""Reads results and shows them; computes nothing."""
