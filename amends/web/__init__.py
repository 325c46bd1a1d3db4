"""The review page: a run folder and a person's decisions come in; causes.csv, repairs and their results go out.

A small server that computes nothing itself: whatever takes long is a process of its own (`amends treat`, `curve`).
"""
