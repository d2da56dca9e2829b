STOPS = ["Bo", "Vik"]
