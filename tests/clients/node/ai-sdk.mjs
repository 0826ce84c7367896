// npm ai with @ai-sdk/typesafe-ai, unmodified, against a server: what its documentation shows, and what it makes of
// refusals. `ai` checks each distribution, each score and the chosen option itself and throws if they do not agree.
//
// Usage: node ai-sdk.mjs OPEN KEYED SMALL KEY SEEING
// The three are addresses: of a server without keys, of one with KEY, and of one that takes 4 KiB.
import assert from 'node:assert/strict';
import { VERSION, createTypeSafeAi, typeSafeAi } from '@ai-sdk/typesafe-ai';
import {
  APICallError,
  createProviderRegistry,
  customProvider,
  experimental_decide as decide,
  experimental_evaluate as evaluate,
} from 'ai';
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
const checks = new Checks('ai-sdk');
const questions = {
  route: {
    type: 'choice',
    instructions: 'Which team should handle this?',
    criteria: { billing: null, shipping: null, technical: null },
  },
  angry: { type: 'boolean', instructions: 'Is the customer angry?' },
  urgency: { type: 'score', instructions: 'How urgent is this?', criteria: levels },
};
const one = { refund: { type: 'boolean', instructions: 'Does the customer want money back?' } };

function model(address, options = {}) {
  return createTypeSafeAi({ baseURL: `${address}/v1`, apiKey: 'any-key', ...options }).evaluationModel('jev-latest');
}

// The error that `call` ends with, after one request.
async function refused(status, address, request, options = {}) {
  const seen = watched();
  const error = await decide({ model: model(address, { fetch: seen.fetch, ...options }), ...request }).then(
    () => assert.fail(`answered, and not refused with ${status}`),
    error => error,
  );
  assert.ok(APICallError.isInstance(error), `${error}`);
  assert.equal(error.statusCode, status);
  assert.equal(error.isRetryable, false);
  assert.equal(error.message, error.data.error.message);
  assert.ok(error.responseHeaders['x-typesafe-request-id'], 'no request id');
  assert.deepEqual(seen.statuses, [status]);
  return error;
}

function judge(result) {
  const { route, angry, urgency } = result.answers;
  assert.deepEqual(Object.keys(result.answers), ['route', 'angry', 'urgency']);
  assert.equal(route.choice, 'billing');
  distribution(route.probabilities, ['billing', 'shipping', 'technical']);
  probability(angry.probability);
  distribution(urgency.probabilities, ['0', '1', '2', '3']);
  close(urgency.score, scoreOf(urgency.probabilities), 1e-9);
  const { confidence } = result.providerMetadata.typesafe;
  assert.deepEqual(Object.keys(confidence), ['route', 'urgency']);
  close(confidence.route, choiceConfidence(route.probabilities), 1e-9);
  close(confidence.urgency, scoreConfidence(urgency.probabilities), 1e-9);
  assert.ok(result.usage.inputTokens > 0, `${result.usage.inputTokens}`);
  assert.equal(result.usage.outputTokens, 0);
  assert.equal(result.usage.totalTokens, result.usage.inputTokens);
  assert.deepEqual(result.warnings, []);
  assert.equal(result.response.modelId, 'clef-nano');
  assert.ok(result.response.headers['x-typesafe-request-id']);
}

assert.equal(VERSION, '3.0.0');

await checks.run("experimental_decide with the provider's documented example", async () => {
  process.env.TYPESAFE_AI_API_KEY = 'any-key';
  const result = await decide({
    model: createTypeSafeAi({ baseURL: `${open}/v1` }).evaluationModel('jev-latest'),
    state: { message: 'I was charged twice. Please refund the duplicate.' },
    questions: {
      department: {
        type: 'choice',
        instructions: 'Which team should handle this?',
        criteria: {
          billing: { includes: ['Charges', 'Invoices', 'Refunds'] },
          technical: ['Bugs', 'Outages'],
          other: null,
        },
      },
      severity: {
        type: 'score',
        instructions: 'How severe is the issue?',
        criteria: ['Cosmetic', 'Workaround exists', 'Blocking; no workaround'],
      },
      requestsRefund: { type: 'boolean', instructions: 'Is the customer requesting money back?' },
    },
  });
  const { department, severity, requestsRefund } = result.answers;
  distribution(department.probabilities, ['billing', 'technical', 'other']);
  assert.equal(department.choice, mostProbable(department.probabilities));
  distribution(severity.probabilities, ['0', '1', '2']);
  probability(requestsRefund.probability);
});

await checks.run('answers of all three types, with values', async () => {
  judge(await decide({ model: model(open), state: message, questions }));
});

await checks.run('experimental_evaluate, the older name', async () => {
  judge(await evaluate({ model: model(open), state: message, questions }));
});

await checks.run('a state of text and JSON parts', async () => {
  const state = [{ type: 'text', text: message }, { type: 'json', value: { orders: [4471, 4472] } }];
  judge(await decide({ model: model(open), state, questions }));
});

await checks.run('criteria without instructions', async () => {
  const { answers } = await decide({
    model: model(open),
    state: message,
    questions: { refund: { type: 'boolean', criteria: { true: 'wants money back', false: null } } },
  });
  probability(answers.refund.probability);
});

await checks.run('through a registry, and as the default provider', async () => {
  const registry = createProviderRegistry({ triage: customProvider({ decisionModels: { native: model(open) } }) });
  judge(await decide({ model: registry.decisionModel('triage:native'), state: message, questions }));
  globalThis.AI_SDK_DEFAULT_PROVIDER = createTypeSafeAi({ baseURL: `${open}/v1`, apiKey: 'any-key' });
  judge(await decide({ model: 'jev-latest', state: message, questions }));
  delete globalThis.AI_SDK_DEFAULT_PROVIDER;
});

await checks.run('the model that is asked for is sent, whatever its name', async () => {
  const seen = watched();
  const provider = createTypeSafeAi({ baseURL: `${open}/v1/`, apiKey: 'any-key', fetch: seen.fetch });
  const result = await decide({ model: provider.evaluationModel('another'), state: message, questions: one });
  assert.equal(JSON.parse(seen.requests[0].body).model, 'another');
  assert.equal(result.response.modelId, 'clef-nano');
  assert.deepEqual(typeSafeAi.evaluationModel('jev-latest').supportedQuestionTypes, ['choice', 'score', 'boolean']);
});

await checks.run('255 options', async () => {
  const criteria = Object.fromEntries(Array.from({ length: 255 }, (_, i) => [`queue ${i}`, null]));
  const { answers } = await decide({
    model: model(open),
    state: message,
    questions: { queue: { type: 'choice', instructions: 'Which queue?', criteria } },
  });
  distribution(answers.queue.probabilities, Object.keys(criteria));
});

await checks.run('with a key', async () => {
  judge(await decide({ model: model(keyed, { apiKey: key }), state: message, questions }));
});

await checks.run('401 is APICallError, not retried', async () => {
  const error = await refused(401, keyed, { state: message, questions: one });
  assert.equal(error.data.detail.error_type, 'authentication_error');
});

await checks.run('404 is APICallError, not retried', async () => {
  await refused(404, `${open}/elsewhere`, { state: message, questions: one });
});

await checks.run('413 is APICallError, not retried', async () => {
  await refused(413, small, { state: 'word '.repeat(20_000), questions: one });
});

await checks.run('422 is APICallError, not retried, and names the place', async () => {
  const error = await refused(422, open, {
    state: message,
    questions: { level: { type: 'score', instructions: 'How much?', criteria: ['one level'] } },
  });
  assert.match(error.message, /level/);
  assert.deepEqual(error.data.detail[0].loc.slice(0, 3), ['body', 'questions', 'level']);
});

await checks.run('images are refused with 501, an APICallError that may be retried', async () => {
  const state = [{ type: 'image_url', image_url: { url: picture } }];
  const call = decide({ model: model(open), state, questions: one, maxRetries: 0 });
  const error = await call.then(() => assert.fail('answered'), error => error);
  assert.ok(APICallError.isInstance(error), `${error}`);
  assert.equal(error.statusCode, 501);
  assert.equal(error.isRetryable, true);
  assert.equal(error.data.detail.error_type, 'not_supported_error');
});

await checks.run('images in parts of a message are answered by a server that sees', async () => {
  const state = [{ type: 'image_url', image_url: { url: picture } }];
  const result = await decide({ model: model(seeing), state, questions: one });
  assert.ok(result.answers.refund);
});

await checks.run('a cancelled request ends, and the next is answered', async () => {
  const call = decide({
    model: model(open),
    state: message.repeat(100),
    questions,
    abortSignal: AbortSignal.timeout(5),
  });
  await assert.rejects(call);
  judge(await decide({ model: model(open), state: message, questions }));
});

process.exitCode = checks.exitCode;
