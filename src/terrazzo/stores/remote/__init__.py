"""Remote stores: objects of S3, GCS, Azure and web servers (store.py), opened by their addresses.

What it does not do: import obstore or aiohttp before a store needs them.
"""

from terrazzo.stores.remote.store import RemoteStore

__all__ = ["RemoteStore"]
