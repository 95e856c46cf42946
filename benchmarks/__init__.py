"""One file for each performance claim; every figure is a ratio measured side by side in one run."""
