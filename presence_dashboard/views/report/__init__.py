"""The Report page: what each colleague did in a shift. Start with ``report``."""
