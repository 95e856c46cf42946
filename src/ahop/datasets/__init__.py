"""Data for examples: a building from no file, and a small real sample of Wi-Fi scans."""

from ahop.datasets.building import Building, Scans
from ahop.datasets.wifi import WifiSample, load_wifi_sample

__all__ = ["Building", "Scans", "WifiSample", "load_wifi_sample"]
