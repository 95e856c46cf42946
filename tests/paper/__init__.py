"""The paper as tests: every theorem, lemma, definition and row of Table 1, next to what it does not say.

The statements of the appendix [apd:theorems] are recomputed here by slow loops that read like the paper's formulas.
"""
