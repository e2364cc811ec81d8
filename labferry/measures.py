"""How are sizes and spans of time read as people write them, such as `10GB` and `2h`?"""

import re

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_BYTES = {
    "": 1, "B": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40,
}  # fmt: skip
_MEASURE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")


def find_age_s(text: str) -> float | None:
    """Return the span in seconds, or None where it cannot be read."""
    match = _MEASURE.fullmatch(text)
    if match is None or match[2].lower() not in _SECONDS:
        return None
    return float(match[1]) * _SECONDS[match[2].lower()]


def find_bytes(text: str) -> int | None:
    """Return the size in bytes, or None where it cannot be read."""
    match = _MEASURE.fullmatch(text)
    if match is None or match[2].upper() not in _BYTES:
        return None
    return int(float(match[1]) * _BYTES[match[2].upper()])
