"""What learns by gradient: replay and soft actor-critic."""
