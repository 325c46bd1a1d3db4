"""Run folders: the results of a repair come in, a folder written whole by one writer at a time goes out. What is read
back is checked, as anybody may have changed it."""
