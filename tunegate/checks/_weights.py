"""Single rows of a weight matrix, read from a safetensors file without loading it or torch."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path

EMBEDDINGS = ("embed_tokens.weight", "wte.weight", "word_embeddings.weight", "embed_in.weight")
"""How the names of input embeddings end, in the model families that transformers knows."""

SIZES = {"F32": 4, "F16": 2, "BF16": 2}


@dataclass(frozen=True)
class Matrix:
    """A matrix [rows, width] inside a file."""

    path: Path
    name: str
    offset: int
    """Of its first byte in the file."""
    rows: int
    width: int
    dtype: str

    def norm(self, row: int) -> float:
        """Euclidean norm of one row."""
        size = SIZES[self.dtype] * self.width
        with self.path.open("rb") as handle:
            handle.seek(self.offset + row * size)
            data = handle.read(size)
        return math.sqrt(sum(value * value for value in self._values(data)))

    def _values(self, data: bytes) -> tuple[float, ...]:
        if self.dtype == "BF16":  # the upper half of a float32
            data = b"".join(b"\0\0" + data[at : at + 2] for at in range(0, len(data), 2))
        kind = "e" if self.dtype == "F16" else "f"
        return struct.unpack(f"<{self.width}{kind}", data)


def embeddings(base_dir: Path) -> Matrix | None:
    """The input embeddings of a model folder; None where no file holds them in a known form."""
    for path in sorted(base_dir.glob("*.safetensors")):
        with path.open("rb") as handle:
            length = int.from_bytes(handle.read(8), "little")
            header = json.loads(handle.read(length))
        for name, entry in header.items():
            if name.endswith(EMBEDDINGS) and entry["dtype"] in SIZES:
                rows, width = entry["shape"]
                offset = 8 + length + entry["data_offsets"][0]
                return Matrix(path, name, offset, rows, width, entry["dtype"])
    return None
