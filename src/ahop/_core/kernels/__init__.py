"""The inner loops: sorting dimensions and weighing them by rank."""
