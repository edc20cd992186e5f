"""Maps of attributions and counterfactuals: sensitive to recourse, robust, and where no map can be both."""
