"""The arrays that travel between kbcore's layers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
"""float32 of shape (rows, dimension)."""
Mask = NDArray[np.bool_]
"""One flag a row: True where the row counts."""
