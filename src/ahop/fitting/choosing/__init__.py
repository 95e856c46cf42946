"""Choice among similarities, and calibration."""
