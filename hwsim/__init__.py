"""Hardware: what a mapping costs on a chip. No room here needs torch."""
