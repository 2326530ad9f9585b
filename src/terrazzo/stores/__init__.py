"""Stores: keys to bytes, on disks, in memory, in archives, on servers.

The contract is store.py (with its nouns in contract.py); flow.py drives generators over it.
"""
