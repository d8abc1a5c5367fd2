"""The sites under load. Each runs in the environment of ``benchmarks/peers/web``, with one choice of sessions."""
