"""What is done to a row before it is compared."""

from ahop.transforms.base import Transform
from ahop.transforms.difference import DifferenceTransform
from ahop.transforms.log import LogTransform
from ahop.transforms.power import PowerTransform
from ahop.transforms.rank import RankTransform
from ahop.transforms.snv import SNVTransform

__all__ = ["DifferenceTransform", "LogTransform", "PowerTransform", "RankTransform", "SNVTransform", "Transform"]
