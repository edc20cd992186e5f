"""Features kept or removed: games, Shapley values exact and sampled, occlusion."""
