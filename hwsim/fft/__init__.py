"""FFTs by plans that can be searched: a grammar of plans, codelets made when needed, and what runs them."""
