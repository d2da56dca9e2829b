"""One conversation with a model: messages, context, limits, and what to do next."""
