"""What is known of models: windows, prices, what they take."""
