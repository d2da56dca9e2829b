"""One client for every provider: retries, circuit breaker, authentication."""
