"""Takes triggers from the answer 202 to their end, through crashes of workers and brokers."""
