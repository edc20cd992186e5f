"""Recourse round by round: people move, the model is trained again."""
