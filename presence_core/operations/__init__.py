"""All logic, without input or output: generators that yield batches of calls and receive their replies.

A function checks its arguments at once, before anything is sent, and returns the generator. Nothing here imports redis,
a clock or a source of randomness; ``Context`` carries what the client lends.
"""
