"""MuZero: an agent that plans the moves of a problem's game in a model that it learns; the tree search is
`egrl/mcts/`.
"""
