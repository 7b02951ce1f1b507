"""A Gymnasium environment: an episode places tensor after tensor. REINFORCE on one linear layer.

egrl suite run --track measurements --method gym_agent:train --split test -o results.json   (in this folder)
"""

import numpy as np


def train(env, rate=0.05):
    """Act until no measurement is left: `env.task.left` says how many are."""
    rng = np.random.default_rng(env.first_seed)
    memories = int(env.action_space.n)
    weights = np.zeros((env.observation_space.shape[0], memories))
    weights[4 : 4 + memories] = 4.0 * np.eye(memories)  # begin near the default's choices
    usual = 0.0
    while env.task.left:
        observed, _ = env.reset()
        slopes, ended = np.zeros_like(weights), False
        while not ended:
            scores = observed @ weights
            chances = np.exp(scores - scores.max())
            chances /= chances.sum()
            action = rng.choice(memories, p=chances)
            slopes += np.outer(observed, np.eye(memories)[action] - chances)
            observed, reward, terminated, truncated, _ = env.step(action)
            ended = terminated or truncated
        weights += rate * (reward - usual) * slopes / max(np.abs(slopes).max(), 1.0)
        usual += 0.1 * (reward - usual)
