"""Patches: two states of one model come in, a small file that leads from one to the other and back goes out.

A patch knows the weights it belongs to, tensor by tensor, and refuses others. It computes the same on every machine, so
the weights after it are known as well, and it can be taken out again to the bit.
"""
