"""The layers of hopfield-layers (package `hflayers`, 1.0.2) under their own names and arguments, on our association.

Unchanged code keeps running, and its state dicts load. Where the original is right, so are these, to the last digits;
where it mixes samples, ignores arguments or gives NaN, these do not: the page on layers lists every difference.

The layers of `ahop.nn` do the same with fewer arguments; new code is better off there.
"""

from ahop.nn.compat._blocks import HopfieldDecoderLayer, HopfieldEncoderLayer
from ahop.nn.compat._hopfield import Hopfield
from ahop.nn.compat._owning import HopfieldLayer, HopfieldPooling

__all__ = ["Hopfield", "HopfieldDecoderLayer", "HopfieldEncoderLayer", "HopfieldLayer", "HopfieldPooling"]
