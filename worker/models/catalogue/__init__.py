"""What is known of models: windows, prices, abilities."""
