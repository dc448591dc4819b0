"""A fine-tune that proves itself before it spends.

The verbs of the command line are functions: `import tunegate; tunegate.verbs.check("runs/a")`.
They stay in their own module because several of them (`freeze`, `quote`, `report`, ...) carry the
name of a module of this package.
"""

from __future__ import annotations

import importlib
from types import ModuleType

__version__ = "0.1.0"

__all__ = ["__version__", "verbs"]


def __getattr__(name: str) -> ModuleType:
    # Importing the package has to stay cheap, and layers below verbs import it for the version.
    if name == "verbs":
        return importlib.import_module("tunegate.verbs")
    raise AttributeError(f"module 'tunegate' has no attribute {name!r}")
