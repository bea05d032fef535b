"""Numbers in sentences and labels."""

from __future__ import annotations

import math


def readable(value: float, digits: int = 3) -> str:
    """A number with so many significant digits; a large one without an exponent: 1,230,000, not 1.23e+06."""
    if not math.isfinite(value):
        return str(value)
    rounded = float(f"{value:.{digits}g}")
    return f"{rounded:,.{digits}g}" if abs(rounded) < 10**digits else f"{rounded:,.0f}"
