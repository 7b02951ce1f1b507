"""Methods that share the budget of a run by what they find: `egrl`, `ea` and `pg`."""
