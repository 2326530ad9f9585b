"""Attributes of arrays and groups."""

import terrazzo as zarr

root = zarr.create_group("attributes.zarr", attributes={"title": "first"})
root.attrs["foo"] = "bar"
z = root.create_array("x", shape=(10,), dtype="f8", attributes={"units": "K"})
z.attrs["nested"] = {"list": [1, 2.5, None, "text"]}
z.attrs.update({"one": 1})

again = zarr.open("attributes.zarr", mode="r+")
assert again.attrs.asdict() == {"title": "first", "foo": "bar"}
assert sorted(again["x"].attrs) == ["nested", "one", "units"]
assert again["x"].attrs["nested"]["list"][1] == 2.5
assert "foo" in again.attrs and len(again.attrs) == 2

del again.attrs["foo"]
again.update_attributes({"more": True})
again["x"].attrs.put({"only": "this"})
final = zarr.open_group("attributes.zarr", mode="r")
assert dict(final.attrs) == {"title": "first", "more": True}
assert dict(final["x"].attrs) == {"only": "this"}
