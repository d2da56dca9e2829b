import assert from 'node:assert';
import test from 'node:test';
import { paidOn } from '../src/page.js';

test('the day of payment is shown', () => {
  assert.equal(paidOn({ id: 1, time: '2026-11-02T10:00:00Z' }), '2026-11-02');
});
