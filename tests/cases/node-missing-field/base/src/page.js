import { toInvoice } from './invoice.js';

export function paidOn(row) {
  return toInvoice(row).paidAt.slice(0, 10);
}
