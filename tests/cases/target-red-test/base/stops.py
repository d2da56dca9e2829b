STOPS = ["Vik", "Bo"]
