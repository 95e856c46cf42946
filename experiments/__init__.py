"""One file for each table or figure of the paper, and one for each claim of ours. Public names of ahop only."""
