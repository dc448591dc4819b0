"""Where keys were first seen, in memory that does not grow with the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tunegate.errors import DataError, boundary

if TYPE_CHECKING:
    from sqlite3 import Connection

KEPT = 20_000
"""Keys in memory, about 4 MB; once there are more they go into a temporary file."""

DISK_HINT = "make room where temporary files are kept, or name another folder as TMPDIR"


class Firsts:
    """The line, and a word about it, at which each key (a hash of 64 bits) was first seen."""

    def __init__(self, *, kept: int = KEPT) -> None:
        self._kept = kept
        self._young: dict[int, tuple[int, str | None]] = {}
        self._file: Connection | None = None

    def first(self, key: int, line: int, word: str | None = None) -> tuple[int, str | None]:
        """Line and word of the key's first time, which is this one where it is new.

        Raises DataError where the temporary file cannot be written.
        """
        found = self._young.get(key)
        if found is None and self._file is not None:
            query = "SELECT line, word FROM firsts WHERE key = ?"
            found = self._file.execute(query, (key,)).fetchone()
        if found is None:
            found = self._young[key] = (line, word)
            if len(self._young) > self._kept:
                with boundary(DataError, "keeping the hashes of rows", hint=DISK_HINT):
                    self._put_away()
        return found

    def close(self) -> None:
        """Give the temporary file back."""
        self._young.clear()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _put_away(self) -> None:
        import sqlite3

        if self._file is None:
            # No name: SQLite makes a file of its own for it, which goes when it is closed.
            self._file = sqlite3.connect("", isolation_level=None)
            self._file.execute("PRAGMA journal_mode = OFF")
            self._file.execute("CREATE TABLE firsts (key INTEGER PRIMARY KEY, line INT, word TEXT)")
        rows = ((key, *found) for key, found in sorted(self._young.items()))
        self._file.execute("BEGIN")
        self._file.executemany("INSERT INTO firsts VALUES (?, ?, ?)", rows)
        self._file.execute("COMMIT")
        self._young.clear()
