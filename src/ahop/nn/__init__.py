"""Layers for networks: associations with patterns that change from call to call, and with patterns that are learned."""

import ahop._core.with_torch  # noqa: F401
from ahop.nn.association import Associated, Association
from ahop.nn.base import Layer
from ahop.nn.encoders import HopfieldDecoderLayer, HopfieldEncoderLayer
from ahop.nn.energy_transformer import EnergyTransformerBlock
from ahop.nn.hopfield import Hopfield
from ahop.nn.layer import HopfieldLayer
from ahop.nn.pooling import HopfieldPooling
from ahop.nn.prototypes import Prototypes

__all__ = [
    "Associated",
    "Association",
    "EnergyTransformerBlock",
    "Hopfield",
    "HopfieldDecoderLayer",
    "HopfieldEncoderLayer",
    "HopfieldLayer",
    "HopfieldPooling",
    "Layer",
    "Prototypes",
]
