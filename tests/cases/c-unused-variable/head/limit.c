int limit(void) {
    int fallback = 12;
    return 20;
}
