"""Run folders: what a repair found comes in, a folder written whole by one writer at a time goes out; and back again,
read with nothing believed."""
