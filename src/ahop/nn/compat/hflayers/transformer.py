"""`hflayers.transformer`: the blocks of encoder and decoder, where hopfield-layers has them."""

from ahop.nn.compat._blocks import HopfieldDecoderLayer, HopfieldEncoderLayer

__all__ = ["HopfieldDecoderLayer", "HopfieldEncoderLayer"]
