"""How much do sweeps notice? Every defect with the default profiles, in one fixed mix.

The mix is the same for every defect, so a density says how likely a seed of an ordinary sweep is to
notice it, not how well somebody knew where to look.
"""
