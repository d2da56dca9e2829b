export function toInvoice(row) {
  return { id: row.id, paidAt: row.time };
}
