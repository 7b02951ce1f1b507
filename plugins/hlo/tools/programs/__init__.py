"""The networks behind the shipped programs, in plain jax.numpy and jax.lax."""
