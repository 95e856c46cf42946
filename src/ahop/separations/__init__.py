"""From scores to weights, each with the potential whose gradient it is."""
