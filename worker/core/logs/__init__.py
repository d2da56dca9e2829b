"""Job logs as text: cleaning, what explains a failure, its signature."""
