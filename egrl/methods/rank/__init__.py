"""A ranking network trained by the gradient of its scores."""
