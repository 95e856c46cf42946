"""How a state moves until it rests."""
