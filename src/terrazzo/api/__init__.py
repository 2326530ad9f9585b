"""The functions of terrazzo in two faces: `synchronous` waits, `asynchronous` is awaited.

What it does not do: anything of its own.
"""
