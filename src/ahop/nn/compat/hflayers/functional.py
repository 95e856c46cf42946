"""`hflayers.functional`: the formulas behind the layers. There is another here, so each name says where to go."""

from ahop.nn.compat._elsewhere import elsewhere

__getattr__ = elsewhere("hflayers.functional")
