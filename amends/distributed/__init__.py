"""Many processes as one: what a set of examples is cut into comes in; sums and rows go out, the same to the bit
however many processes computed them.

`shards` says how a set is cut, `group` which of them are mine, and `watch` who was lost.
"""
