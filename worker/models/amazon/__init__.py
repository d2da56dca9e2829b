"""What is Amazon's: signatures of requests to Bedrock, and its errors."""
