"""The least seconds of a training step within a limit of memory: plans, and a bound that no plan is below."""
