"""What is there is not lost by accident."""

import terrazzo as zarr

zarr.create_array("there.zarr", shape=(3,), dtype="i4")[:] = 1
for attempt in (
    lambda: zarr.create_array("there.zarr", shape=(3,), dtype="i4"),
    lambda: zarr.create_group("there.zarr"),
    lambda: zarr.open_array("there.zarr", mode="w-", shape=(3,), dtype="i4"),
):
    try:
        attempt()
    except (ValueError, FileExistsError):
        pass
    else:
        raise AssertionError("an array was replaced without being asked to")
assert (zarr.open_array("there.zarr", mode="r")[:] == 1).all()

zarr.create_array("there.zarr", shape=(5,), dtype="i4", overwrite=True)
assert not zarr.open_array("there.zarr", mode="r")[:].any()
root = zarr.open_group("there.zarr", mode="w")
assert len(root) == 0
