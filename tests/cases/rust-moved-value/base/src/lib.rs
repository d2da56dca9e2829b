pub struct Ledger {
    rows: Vec<i64>,
}

impl Ledger {
    pub fn new(rows: Vec<i64>) -> Self {
        Ledger { rows }
    }

    pub fn balance(&self) -> i64 {
        self.rows.iter().sum()
    }

    pub fn close(&self) -> usize {
        self.rows.len()
    }
}

pub fn report(rows: Vec<i64>) -> String {
    let ledger = Ledger::new(rows);
    let count = ledger.close();
    format!("{} rows, {}", count, ledger.balance())
}
