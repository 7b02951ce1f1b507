"""Running papers' experiments again: what a paper is, where `egrl reproduce` finds it, and what all of them share."""
