// npm @typesafe-ai/sdk, unmodified, against a server: what its documentation shows, and what it makes of refusals.
//
// Usage: node typesafe-js.mjs OPEN KEYED SMALL KEY SEEING
// The three are addresses: of a server without keys, of one with KEY, and of one that takes 4 KiB.
import assert from 'node:assert/strict';
import {
  APIError,
  APITimeoutError,
  APIUserAbortError,
  AuthenticationError,
  InternalServerError,
  NotFoundError,
  TypeSafeClient,
  UnprocessableEntityError,
  VERSION,
  choice,
  noul,
  score,
} from '@typesafe-ai/sdk';
import {
  Checks,
  choiceConfidence,
  close,
  distribution,
  levels,
  message,
  mostProbable,
  picture,
  probability,
  scoreConfidence,
  scoreOf,
  watched,
} from './checking.mjs';

const [open, keyed, small, key, seeing] = process.argv.slice(2);
const checks = new Checks('typesafe-js');
const questions = {
  route: choice('Which team should handle this?', { billing: null, shipping: null, technical: null }),
  angry: noul('Is the customer angry?'),
  urgency: score('How urgent is this?', levels),
};
const one = { refund: noul('Does the customer want money back?') };

function client(baseURL, options = {}) {
  return new TypeSafeClient({ baseURL, apiKey: 'any-key', timeout: 60_000, ...options });
}

// The error that `call` ends with, which is of exactly this class, and whose parts the SDK could read.
async function refused(kind, status, call) {
  const error = await call.then(
    () => assert.fail(`answered, and not refused with ${status}`),
    error => error,
  );
  assert.equal(error.constructor, kind, `${error}`);
  assert.equal(error.status, status);
  assert.ok(error.requestId, 'no request id');
  assert.equal(error.message, `${status} ${error.body.error.message}`);
  return error;
}

function judge({ answers, model, usage }) {
  assert.deepEqual(Object.keys(answers), ['route', 'angry', 'urgency']);
  assert.equal(answers.route.choice, 'billing');
  distribution(answers.route.probabilities, ['billing', 'shipping', 'technical']);
  close(answers.route.confidence, choiceConfidence(answers.route.probabilities), 1e-9);
  assert.equal(answers.angry.type, 'noul');
  probability(answers.angry.noul);
  distribution(answers.urgency.probabilities, ['0', '1', '2', '3']);
  assert.deepEqual(answers.urgency.legend, { ...levels });
  close(answers.urgency.score, scoreOf(answers.urgency.probabilities), 1e-9);
  close(answers.urgency.confidence, scoreConfidence(answers.urgency.probabilities), 1e-9);
  assert.equal(model, 'clef-nano');
  assert.ok(Number.isInteger(usage.input_tokens) && usage.input_tokens > 0, `${usage.input_tokens}`);
  assert.equal(usage.output_tokens, 0);
}

assert.equal(VERSION, '0.6.0');

await checks.run('quickstart of its README, from environment variables', async () => {
  process.env.TYPESAFE_API_KEY = 'any-key';
  process.env.TYPESAFE_BASE_URL = open;
  const response = await new TypeSafeClient().systemOne({
    state: { document: 'I was charged twice. Please fix this ASAP.' },
    questions: {
      category: choice('What is this ticket about?', { billing: null, technical: null, other: null }),
    },
  });
  const { category } = response.answers;
  distribution(category.probabilities, ['billing', 'technical', 'other']);
  assert.equal(category.choice, mostProbable(category.probabilities));
});

await checks.run('answers of all three types, with values', async () => {
  judge(await client(open).systemOne({ state: message, questions }));
});

await checks.run('structured and missing instructions and criteria, any id', async () => {
  const { answers } = await client(open).systemOne({
    state: [{ role: 'user', content: 'I was charged twice 😡' }, { n: 1.5, paid: true, note: null }],
    questions: {
      '질문 🎯': noul({ task: 'Is money asked for?' }, { true: ['refund me'], false: null }),
      refund: noul(),
      team: choice(null, { 환불: { owns: ['refunds'] }, '🙂': null }),
      mood: score(['How', 'cross?'], [{ label: 'calm' }, ['cross', 'loud'], 'furious']),
    },
  });
  probability(answers['질문 🎯'].noul);
  probability(answers.refund.noul);
  distribution(answers.team.probabilities, ['환불', '🙂']);
  assert.deepEqual(answers.mood.legend, { 0: { label: 'calm' }, 1: ['cross', 'loud'], 2: 'furious' });
});

await checks.run('a level without a description', async () => {
  const { answers } = await client(open).systemOne({ state: message, questions: { level: score('How?', [null, 'much']) } });
  assert.deepEqual(answers.level.legend, { 0: '', 1: 'much' });
});

await checks.run('withResponse() has the request id, asResponse() the reply', async () => {
  const first = await client(open).systemOne({ state: message, questions: one }).withResponse();
  probability(first.data.answers.refund.noul);
  assert.ok(first.requestId);
  assert.equal(first.response.headers.get('x-typesafe-request-id'), first.requestId);
  const second = await client(open).systemOne({ state: message, questions: one }).asResponse();
  assert.equal(second.status, 200);
  assert.notEqual(second.headers.get('x-typesafe-request-id'), first.requestId);
});

await checks.run('models.list(), and the listed name answers', async () => {
  const models = await client(open).models.list();
  assert.deepEqual(models.map(({ name }) => name), ['clef-nano']);
  assert.ok(models[0].description);
  assert.equal(typeof models[0].release_date, 'string');
  const { model } = await client(open).systemOne({ state: message, questions: one, model: models[0].name });
  assert.equal(model, 'clef-nano');
});

await checks.run('with a key', async () => {
  judge(await client(keyed, { apiKey: key }).systemOne({ state: message, questions }));
  assert.equal((await client(keyed, { apiKey: key }).models.list()).length, 1);
});

// [name, class, status, address, request]; the client asks once.
const refusals = [
  ['401 is AuthenticationError', AuthenticationError, 401, keyed, { state: message, questions: one }],
  ['404 is NotFoundError', NotFoundError, 404, `${open}/elsewhere`, { state: message, questions: one }],
  ['413 is APIError', APIError, 413, small, { state: 'word '.repeat(20_000), questions: one }],
  ['422 is UnprocessableEntityError', UnprocessableEntityError, 422, open, { state: null, questions: one }],
  ['a prompt over the context is 422', UnprocessableEntityError, 422, open, { state: 'and '.repeat(60_000), questions: one }],
];
for (const [name, kind, status, address, request] of refusals) {
  await checks.run(`${name}, not retried`, async () => {
    const seen = watched();
    await refused(kind, status, client(address, { fetch: seen.fetch }).systemOne(request));
    assert.deepEqual(seen.statuses, [status]);
  });
}

await checks.run('422 names the place', async () => {
  const request = { state: message, questions: { place: { type: 'box', instructions: 'Where?' } } };
  const error = await refused(UnprocessableEntityError, 422, client(open).systemOne(request));
  assert.match(error.message, /place/);
  assert.deepEqual(error.body.detail[0].loc.slice(0, 3), ['body', 'questions', 'place']);
});

await checks.run('images are refused with 501, InternalServerError, which the SDK retries', async () => {
  const seen = watched();
  const options = { fetch: seen.fetch, retry: { backoffInitialMs: 0 } };
  const request = { state: 'What is this?', images: [picture], questions: one };
  const error = await refused(InternalServerError, 501, client(open, options).systemOne(request));
  assert.equal(error.body.error.type, 'not_supported_error');
  assert.deepEqual(seen.statuses, [501, 501, 501]);
});

await checks.run('images are answered by a server that sees', async () => {
  const request = { state: 'What is this?', images: [picture], questions: one };
  const response = await client(seeing).systemOne(request);
  probability(response.answers.refund.noul);
  assert.ok(response.usage.input_tokens > 64, `${response.usage.input_tokens}`);
});

await checks.run('a cancelled request and one out of time end, and the next is answered', async () => {
  const long = { state: message.repeat(100), questions };
  const controller = new AbortController();
  const cancelled = client(open).systemOne(long, { signal: controller.signal });
  setTimeout(() => controller.abort(), 5);
  await assert.rejects(cancelled, APIUserAbortError);
  await assert.rejects(client(open, { retry: { maxRetries: 0 } }).systemOne(long, { timeout: 5 }), APITimeoutError);
  judge(await client(open).systemOne({ state: message, questions }));
});

await checks.run('many requests at once have the same answers', async () => {
  const shared = client(open);
  const results = await Promise.all(Array.from({ length: 8 }, () => shared.systemOne({ state: message, questions })));
  results.forEach(result => assert.deepEqual(result.answers, results[0].answers));
  judge(results[0]);
});

process.exitCode = checks.exitCode;
