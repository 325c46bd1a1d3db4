"""What goes wrong around amends: kills, full disks, damaged and hostile files. The quick forms; `make faults` runs
the full ones of tests/faults/full.py."""
