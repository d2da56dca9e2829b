export function toInvoice(row) {
  return { id: row.id, settledAt: row.time };
}
