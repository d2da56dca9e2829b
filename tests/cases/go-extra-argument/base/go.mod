module example.org/spool

go 1.22
