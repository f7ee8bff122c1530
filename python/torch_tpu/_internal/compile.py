"""The Dynamo backend under its upstream name."""

from .._compile.backend import TpuBackend as TpuBackend
