"""Playing many games in lockstep and remembering them: what an agent that plans learns from."""
