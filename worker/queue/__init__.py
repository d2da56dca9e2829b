"""A trigger from the answer 202 to its end, through crashes of workers and brokers."""
