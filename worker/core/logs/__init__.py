"""Job logs as text: cleaning them, finding what explains a failure, and its signature."""
