"""PJRT plugins of installed packages: found, not imported. The core decides which one is used."""

from __future__ import annotations

import importlib.util
import pathlib

from . import _C

# package to import, file in it, distribution to name, whether it is a CPU plugin; the best first
CANDIDATES = (
    ("libtpu", "libtpu.so", "libtpu", False),
    ("lammps_jax_pjrt_cpu", "pjrt_c_api_cpu_plugin.so", "lammps-jax-pjrt-cpu", True),
)


def add_candidates() -> None:
    for package, file, distribution, is_cpu in CANDIDATES:
        try:
            spec = importlib.util.find_spec(package)
        except (ImportError, ValueError):
            continue
        for folder in (spec.submodule_search_locations or []) if spec else []:
            path = pathlib.Path(folder, file)
            if path.is_file():
                _C.add_plugin_candidate(str(path), f"package {distribution}", is_cpu)
                break
