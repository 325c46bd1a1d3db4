"""Patches: two states of one model come in, a small file that leads from one to the other and back goes out.

A patch knows the weights it belongs to, tensor by tensor, and refuses others. What it moves it moves the same way on
every machine, so that the weights after it are known as well, and it can be taken out again to the bit.
"""
