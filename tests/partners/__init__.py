"""Sites of four frameworks, each in processes of its own behind a real proxy: ``make partners``."""
