"""HTTP: routes, bodies, keys, limits."""
