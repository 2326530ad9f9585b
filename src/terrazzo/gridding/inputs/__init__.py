"""Inputs: points from columns in memory, files, iterators, or a function of the caller's; source.py is the contract."""

from terrazzo.gridding.inputs.choice import source_from
from terrazzo.gridding.inputs.columns import ColumnsSource
from terrazzo.gridding.inputs.files import FileSource
from terrazzo.gridding.inputs.function import FunctionSource
from terrazzo.gridding.inputs.source import Batch, Source
from terrazzo.gridding.inputs.spilled import SpilledSource

__all__ = ["Batch", "ColumnsSource", "FileSource", "FunctionSource", "Source", "SpilledSource", "source_from"]
