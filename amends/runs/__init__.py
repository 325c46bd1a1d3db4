"""Run folders: written whole by one writer at a time, read with nothing believed, compared."""
