"""One turn of a session: claim, triage, investigation, report, commit."""
