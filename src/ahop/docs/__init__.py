"""The guide in the wheel: `python -m ahop.docs`."""
