"""What experiments share: the harness, data, baselines, tables and pictures."""
