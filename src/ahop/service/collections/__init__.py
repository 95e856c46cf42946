"""Collections: what they hold, snapshots, feedback, batches."""
