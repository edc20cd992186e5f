"""How the score reacts: gradients, SmoothGrad, C-LIME, and attributions along a path."""
