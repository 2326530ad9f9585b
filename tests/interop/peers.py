"""The other libraries, each behind the same two verbs: write a case to a folder, read an array from a folder.

A peer that does not know a type or codec raises whatever it raises; the caller says so in its table.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
from cases import Case

Values = np.ndarray[Any, Any]


class Peer:
    """One library. `read` gives values in the case's numpy type; strings and bytes as objects."""

    name: str
    packages: tuple[str, ...]

    def write(self, path: Path, case: Case, values: Values) -> None:
        """Create the array from the case's document, in the library's own spelling, and store the case's region."""
        raise NotImplementedError

    def read(self, path: Path, case: Case) -> Values:
        raise NotImplementedError

    @classmethod
    def version(cls) -> str:
        return " + ".join(f"{package} {importlib.metadata.version(package)}" for package in cls.packages)

    @classmethod
    def installed(cls) -> bool:
        return all(importlib.util.find_spec(package) is not None for package in cls.packages)


class ZarrPython(Peer):
    name = "zarr"
    packages = ("zarr",)
    pipeline: dict[str, Any] = {"codec_pipeline.path": "zarr.core.codec_pipeline.BatchedCodecPipeline"}

    def configured(self) -> Any:
        import zarr

        return zarr.config.set({"array.rectilinear_chunks": True, **self.pipeline})

    def write(self, path: Path, case: Case, values: Values) -> None:
        import zarr
        from zarr.core.buffer import default_buffer_prototype
        from zarr.core.metadata.v3 import ArrayV3Metadata

        with self.configured():
            metadata = ArrayV3Metadata.from_dict(json.loads(json.dumps(case.document)))
            path.mkdir(parents=True)
            for key, buffer in metadata.to_buffer_dict(default_buffer_prototype()).items():
                (path / key).write_bytes(buffer.to_bytes())
            array = zarr.open_array(path, mode="r+", zarr_format=3)
            if case.write != "none" and values.size:
                text = case.document["data_type"] == "string"
                array[case.region] = (values.astype(np.dtypes.StringDType()) if text else values)[case.region]

    def read(self, path: Path, case: Case) -> Values:
        import zarr

        with self.configured():
            return np.asarray(zarr.open_array(path, mode="r", zarr_format=3)[...])


class ZarrRust(ZarrPython):
    """zarr-python with the zarrs pipeline: the bytes are made in Rust, the documents are not."""

    name = "zarr+zarrs"
    packages = ("zarr", "zarrs")
    pipeline = {"codec_pipeline.path": "zarrs.ZarrsCodecPipeline", "codec_pipeline.strict": True}


class TensorStore(Peer):
    name = "tensorstore"
    packages = ("tensorstore",)

    def write(self, path: Path, case: Case, values: Values) -> None:
        import tensorstore as ts

        document = json.loads(json.dumps(case.document))
        self.refuse(case)
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path)}, "metadata": document}
        array = ts.open(spec, create=True).result()
        if case.write != "none" and values.size:
            array[case.region].write(values[case.region]).result()

    @staticmethod
    def refuse(case: Case) -> None:
        if isinstance(case.document["data_type"], dict):
            # raw_bytes ends the process (0.1.86), structs open one field at a time, others are unknown
            raise ValueError("tensorstore has no whole values of data types with a configuration")

    def read(self, path: Path, case: Case) -> Values:
        import tensorstore as ts

        self.refuse(case)
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path)}}
        return np.asarray(ts.open(spec, open=True).result().read().result())


class Zarrista(Peer):
    """The Rust library zarrs through its Python binding: documents and bytes are both its own."""

    name = "zarrista"
    packages = ("zarrista",)

    def write(self, path: Path, case: Case, values: Values) -> None:
        import zarrista
        from zarrista.store import FilesystemStore

        path.mkdir(parents=True)
        document = json.loads(json.dumps(case.document))
        array = zarrista.Array.from_metadata(document, FilesystemStore(str(path)), "/")
        array.store_metadata()
        part = values[case.region]
        if case.write == "none" or not part.size:
            return
        if part.dtype == object:
            parts = [item.encode() if isinstance(item, str) else item for item in part.ravel().tolist()]
            offsets = np.concatenate([[0], np.cumsum([len(item) for item in parts])]).tolist()
            content = zarrista.ArrayBytes(b"".join(parts), offsets=[int(place) for place in offsets])
        else:
            content = zarrista.ArrayBytes(np.ascontiguousarray(part).tobytes())
        array.store_array_subset(case.region, content)

    def read(self, path: Path, case: Case) -> Values:
        import zarrista
        from zarrista.store import FilesystemStore

        found = zarrista.Array.open(FilesystemStore(str(path)), "/")[...]
        if case.dtype == object:
            return np.asarray(found.to_numpy(), dtype=object).reshape(case.shape)
        return np.frombuffer(found.buffer(), dtype=case.dtype).reshape(case.shape)


PEERS: tuple[type[Peer], ...] = (ZarrPython, ZarrRust, TensorStore, Zarrista)
