int limit(void) { return 12; }
