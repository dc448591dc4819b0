"""Does a version lie in a range? One place, so that every table means the same by a range. Pure."""

from __future__ import annotations


def in_range(version: str | None, versions: str) -> bool | None:
    """Whether `version` satisfies `versions`, such as `>=1.16,<2`; an empty range holds for all.

    None where it cannot be told: no version, or one that is not a version. Pre-releases count as
    their number says.
    """
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion, Version

    if version is None:
        return None
    try:
        return SpecifierSet(versions).contains(Version(version), prereleases=True)
    except (InvalidVersion, InvalidSpecifier):
        return None
