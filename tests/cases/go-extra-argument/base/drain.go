package spool

func Drain(names []string) error {
	for _, name := range names {
		if err := Flush(name); err != nil {
			return err
		}
	}
	return nil
}
