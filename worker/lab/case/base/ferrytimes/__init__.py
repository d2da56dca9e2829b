"""The timetable of the North Sound ferries."""
