// One line per check on standard output, which tests/clients/run counts; and what every answer has to satisfy.
import assert from 'node:assert/strict';

export const message = 'Customer message: I was charged twice for my order last week and nobody has replied.';
export const levels = ['can wait', 'this week', 'today', 'right now'];

export class Checks {
  #client;
  #failed = 0;

  constructor(client) {
    this.#client = client;
  }

  async run(name, check) {
    try {
      await check();
      console.log(`ok      ${this.#client}: ${name}`);
    } catch (error) {
      this.#failed += 1;
      console.error(error);
      const why = String(error?.message ?? error).replace(/\s+/g, ' ').slice(0, 600);
      console.log(`FAILED  ${this.#client}: ${name}: ${error?.name}: ${why}`);
    }
  }

  get exitCode() {
    return this.#failed === 0 ? 0 : 1;
  }
}

export function close(seen, wanted, tolerance) {
  assert.equal(typeof seen, 'number');
  assert.ok(Math.abs(seen - wanted) <= tolerance, `${seen} is not within ${tolerance} of ${wanted}`);
}

export function probability(value) {
  assert.equal(typeof value, 'number');
  assert.ok(value >= 0 && value <= 1, `${value} is no probability`);
}

export function distribution(probabilities, keys) {
  assert.deepEqual(Object.keys(probabilities), keys);
  const values = Object.values(probabilities);
  values.forEach(probability);
  close(values.reduce((sum, value) => sum + value, 0), 1, 1e-6);
}

export function mostProbable(probabilities) {
  return Object.entries(probabilities).reduce((best, entry) => (entry[1] > best[1] ? entry : best))[0];
}

export function choiceConfidence(probabilities) {
  const values = Object.values(probabilities);
  return Math.max(0, (Math.max(...values) - 1 / values.length) / (1 - 1 / values.length));
}

export function scoreOf(probabilities) {
  return Object.values(probabilities).reduce((sum, value, level) => sum + level * value, 0);
}

export function scoreConfidence(probabilities) {
  const values = Object.values(probabilities);
  const mode = values.indexOf(Math.max(...values));
  const spread = values.reduce((sum, _, i) => sum + Math.abs(i - (values.length - 1) / 2), 0) / values.length;
  return Math.max(0, 1 - values.reduce((sum, value, i) => sum + value * Math.abs(i - mode), 0) / spread);
}

// Passes requests on and remembers them and their replies, as a `fetch` that a client lets its users hand in.
export function watched() {
  const seen = { requests: [], statuses: [] };
  seen.fetch = async (input, init) => {
    seen.requests.push({ url: String(input), ...init });
    const response = await fetch(input, init);
    seen.statuses.push(response.status);
    return response;
  };
  return seen;
}

// A picture of one white pixel.
export const picture =
  'data:image/png;base64,' +
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4//8/AAX+Av4N70a4AAAAAElFTkSuQmCC';
