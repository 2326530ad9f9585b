"""Zarr v3 arrays with sharding: read fast, written safely, looked after."""
